"""The commands that make tokenizers, and that encode texts with them."""

from dataclasses import asdict
from typing import Annotated

from cyclopts import Parameter

from clearhead.app.verbs import Json
from clearhead.errors import Interrupted
from clearhead.settings import Encode, Vocabulary

Words = Annotated[Vocabulary, Parameter(name="*")]
Encoding = Annotated[Encode, Parameter(name="*")]


def tokenizer_train(settings: Words, *, json: Json = False) -> int:
    """Learn a vocabulary from files of texts; the same texts give the same files."""
    from clearhead.app import show
    from clearhead.learn.vocabulary import learn_vocabulary

    show.pairs(asdict(learn_vocabulary(settings)), as_json=json)
    return 0


def tokenizer_encode(settings: Encoding, *, json: Json = False) -> int:
    """Encode files of texts once, into a folder of ids that train language reads without loading it whole."""
    from rich.progress import Progress, SpinnerColumn, TextColumn

    from clearhead.app import show
    from clearhead.app.terminal import err
    from clearhead.data.wording import argument, counted
    from clearhead.learn.encode import Encoder

    encoder = Encoder(settings)
    bar = Progress(SpinnerColumn(), TextColumn("{task.description}"), console=err)
    with bar:
        task = bar.add_task("reading")
        try:
            for done in encoder:
                facts, speed = done.facts, done.bytes / 1e6 / max(done.seconds, 1e-9)
                said = f"{counted(facts.documents, 'document')}, {facts.tokens:,} tokens, {speed:.1f} MB/s"
                bar.update(task, description=said)
        except KeyboardInterrupt as error:
            fix = "goes on with the same command and --resume" if encoder.begun else "has not begun"
            raise Interrupted(f"stopped; {settings.out} {fix}") from error
    values = {"out": settings.out, "documents": facts.documents, "bytes": facts.bytes, "tokens": facts.tokens}
    values |= {"bytes_a_token": facts.bytes / facts.tokens, "seconds": done.seconds}
    show.pairs(values, as_json=json)
    show.say(f"learn from it: clearhead train language --data {argument(settings.out)} --out runs/new")
    return 0
