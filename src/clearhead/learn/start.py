"""What a run starts from: a model by name or folder, or a new one made to fit the texts."""

import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import replace

import torch

from clearhead.checkpoint.catalog import locate
from clearhead.checkpoint.embedding import FILES as SENTENCE_FILES
from clearhead.checkpoint.families import FAMILIES
from clearhead.checkpoint.fingerprint import digest
from clearhead.checkpoint.folder import CONFIG, GENERATION, Loaded, read_folder
from clearhead.checkpoint.fresh import new_transformer, with_head
from clearhead.checkpoint.labels import Problem
from clearhead.checkpoint.sizes import Sizes, sizes
from clearhead.checkpoint.tensors import files_read
from clearhead.data.labels import numbers
from clearhead.data.rows import Row
from clearhead.errors import SettingError
from clearhead.model.config import Activation, Config, Head, Over, Pooling, Sinusoidal
from clearhead.model.linear import Linear
from clearhead.model.transformer import Transformer
from clearhead.settings import Contrasting, Learning, Tagging, Training
from clearhead.tasks.task import Task
from clearhead.text.parts import OLDER
from clearhead.text.train import train_tokenizer

# All files that a tokenizer may be read from.
RULES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")
TOKENIZER = (*RULES, *OLDER)
SPOKEN = (GENERATION, "chat_template.jinja")  # how a conversation is laid out, and what ends an answer


def starting_model(settings: Training, rows: Sequence[Row], *, task: Task) -> Loaded:
    """The model before its first step, with a head for this task.

    A head that already has exactly these labels, in order, for the same problem is kept; any other is made
    new from the seed.
    """
    if settings.base == "new":
        return with_mean(new_model(settings, rows, task=task), rows)
    loaded = read_folder(locate(settings.base), settings)
    refuse_translator(loaded, settings)
    network = loaded.network
    own = network.head_facts
    facts = own if own and own.over is Over.TEXTS else loaded.new_head
    if settings.pooling:
        facts = pooled(facts, Pooling(settings.pooling))
    new = replace(loaded, labels=task.labels, problem=task.problem)
    same = task.problem is loaded.problem and (
        task.labels == loaded.labels or (task.problem is Problem.REGRESSION and len(loaded.labels) == 1)
    )
    if same and facts == network.head_facts:
        return new
    with_head(network, replace(facts, labels=len(task.labels)), seed=settings.seed)
    return with_mean(new, rows)


def pooled(head: Head, pooling: Pooling) -> Head:
    """A head with this pooling. The dense layer was trained to read the first token's vector; what pools all
    tokens does without it, and so without its norm and the dropout before it."""
    if pooling is Pooling.CLS:
        return replace(head, pooling=pooling)
    return replace(head, pooling=pooling, dense=False, dense_norm=False, drop_first=False)


def refuse_translator(loaded: Loaded, settings: Learning) -> None:
    """Refuse a model that answers texts with texts where something else is learned."""
    if loaded.network.config.translates:
        raise SettingError(
            f"--from {settings.base} is an encoder–decoder, which learns what texts become: train translate "
            "--from it, or give another model"
        )


def with_mean(loaded: Loaded, rows: Sequence[Row]) -> Loaded:
    """A new head of a regression begins at the mean of the numbers, however far from 0 they lie."""
    head = loaded.network.head
    if loaded.problem is Problem.REGRESSION and head and head.output:
        mean = torch.tensor(numbers(rows), dtype=torch.float64).mean()
        with torch.no_grad():
            head.output.bias.fill_(float(mean))
    return loaded


def new_model(settings: Training, rows: Sequence[Row], *, task: Task) -> Loaded:
    """A new encoder with a head for whole texts."""
    texts = (text for row in rows for text in (row.text, row.pair) if text is not None)
    head = Head(len(task.labels), Pooling(settings.pooling or "mean"), dense=False)
    return replace(new_encoder(settings, texts, head=head), labels=task.labels, problem=task.problem)


def new_encoder(
    settings: Training | Tagging | Contrasting, texts: Iterable[str], *, head: Head | None
) -> Loaded:
    """The encoder as it was first drawn (Vaswani et al. 2017): norm after, ReLU, sinusoids; a tokenizer of
    its own, and a head whose labels the caller names."""
    tokenizer = train_tokenizer(texts, vocab=settings.vocab, lowercase=settings.lowercase)
    config = Config(
        vocab=tokenizer.vocab_size,
        width=settings.width,
        layers=settings.layers,
        heads=settings.heads,
        hidden=settings.hidden,
        positions=Sinusoidal(),
        activation=Activation.RELU,
        scale_embedding=True,
    )
    refuse_huge(sizes(config))
    family = FAMILIES["clearhead"]
    network = new_transformer(config, head, seed=settings.seed)
    return Loaded(network, tokenizer, (), family, None)


def refuse_huge(found: Sizes) -> None:
    """Refuse a new model that this machine cannot hold while it learns."""
    if hasattr(os, "sysconf"):  # there is no such number elsewhere
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        if found.training_bytes > memory:
            needed, there = (f"{number / 1e9:,.0f} GB" for number in (found.training_bytes, memory))
            raise SettingError(
                f"a new model of {found.parameters:,} parameters takes {needed} to train, and this machine "
                f"has {there}; lower --width, --hidden, --layers or --vocab"
            )


def digest_of_base(settings: Learning) -> str | None:
    """SHA-256 of the files that a base model, or the tokenizer of a new one, is read from; None where all is
    made new."""
    source = settings.base if settings.base != "new" else getattr(settings, "tokenizer", None)
    if source is None:
        return None
    folder, found = locate(source), hashlib.sha256()
    weights = files_read(folder) if settings.base != "new" else []
    others = [folder / name for name in (CONFIG, *SPOKEN, *TOKENIZER)]
    if isinstance(settings, Contrasting):
        others += [folder / name for name in SENTENCE_FILES]
    for path in sorted(path for path in [*weights, *others] if path.is_file()):
        found.update(f"{path.name} {digest(path)}\n".encode())
    return found.hexdigest()


def named_base(settings: Learning) -> str:
    """What `digest_of_base` is of, in words."""
    if settings.base != "new":
        return f"the model of --from {settings.base}"
    return f"the tokenizer of --tokenizer {getattr(settings, 'tokenizer', None)}"


def usual_rate(settings: Learning, config: Config) -> float:
    """The peak learning rate: as asked for, or by what is trained (new or a head alone, narrow, wide)."""
    if settings.learning_rate is not None:
        return settings.learning_rate
    if settings.base == "new" or getattr(settings, "freeze", False):
        return 1e-3
    return 1e-4 if config.width < 512 else 3e-5


def learn_leanly(network: Transformer, settings: Learning) -> None:
    """Set what a network keeps for its gradient, and what its products are computed in."""
    for stack in (network.encoder, network.decoder):
        if stack is not None:
            stack.checkpointing = settings.checkpointing
            for layer in stack.modules():
                if isinstance(layer, Linear) and settings.autocast:
                    layer.autocast = getattr(torch, settings.autocast)
