"""Vectors at the command line: train a model that makes them, ask for them, find the nearest texts."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from clearhead.data.wording import argument
from clearhead.errors import DataError, SettingError
from clearhead.settings import (
    Answering,
    Asking,
    Contrasting,
    Embedded,
    Reading,
    Scored,
    Writing,
    flag,
)

if TYPE_CHECKING:
    from clearhead.data.rows import Row
    from clearhead.infer.embed import Vector
    from clearhead.infer.model import Model
    from clearhead.infer.nearest import Nearest
    from clearhead.learn.embed import EmbedRun

Settings = Annotated[Contrasting, Parameter(name="*")]
SHOWN = 4  # numbers of a vector that a terminal shows


def train_embed(settings: Settings) -> int:
    """Train a model whose vectors tell which texts belong together, from pairs of them, and write a
    report."""
    from clearhead.app import watch
    from clearhead.learn.embed import EmbedRun

    run = EmbedRun(settings)
    watch.training(run)
    watch.trained(run, report_of(run))
    return 0


def evaluated(model: "Model", data: str, *, settings: Asking, scoring: Scored, as_json: bool) -> None:
    """Print how well a model's vectors tell what belongs together in a file of pairs."""
    from clearhead.app import show
    from clearhead.infer.couples import evaluate_pairs
    from clearhead.infer.embed import asking_for

    asking = asking_for(scoring, settings)
    found = evaluate_pairs(model, data, columns=scoring, reading=settings, settings=asking)
    if found.truncated:
        show.say(f"note: longer than the model takes, and cut: {found.truncated} texts")
    about = {"truncated": found.truncated, "seconds": found.seconds}
    show.pairs(asdict(found.metrics) | about, as_json=as_json)


def answered(
    model: "Model",
    file: str | None,
    *,
    texts: list[str] | None,
    settings: Asking,
    ways: Answering,
    writing: Writing,
) -> None:
    """Print the vector of each text or, with --query, the texts of a file that are nearest to these."""
    from clearhead.app import show
    from clearhead.app.asking import refuse_bytes, texts_as_rows
    from clearhead.infer.embed import asking_for, embed_rows
    from clearhead.infer.nearest import nearest

    base = argument(model.loaded.folder or "MODEL")
    if not ways.query:
        for name in ("query_prefix", "top"):
            if getattr(ways, name) != getattr(Answering(), name):
                raise SettingError(f"{flag(name)} is for --query, which is not given; leave it out")
        show.say(
            f"note: {model.name} has no labels yet, so each text gets its vector; for labels train it: "
            f"clearhead train classify --from {base} --data FILE --out FOLDER"
        )
    asking = asking_for(ways, settings, prefix=ways.prefix)
    rows = texts_as_rows(texts, settings) if texts else rows_of("-" if file is None else file, settings)
    if not ways.query:
        written(embed_rows(model, rows, settings=asking), writing)
        return
    for number, query in enumerate(ways.query, 1):
        refuse_bytes(query, f"--query number {number}")
        if not query.strip():
            raise DataError(f"--query number {number} is empty; write what is looked for")
    other = asking  # the folder's own prompt for queries comes first, where it has one
    if ways.query_prefix is not None or (
        model.loaded.embedding and "query" in model.loaded.embedding.prompts
    ):
        other = replace(asking, prompt=None, prefix=ways.query_prefix)
    told(nearest(model, rows, queries=ways.query, settings=asking, asking=other, top=ways.top), writing)


def rows_of(path: str, settings: Reading) -> Iterator["Row"]:
    """The texts of a file one after another, as rows; columns beside them are left out."""
    from clearhead.data.rows import Row, read_texts
    from clearhead.data.wording import place

    file = "standard input" if path == "-" else path
    found = read_texts(path, text_column=settings.text_column, format=settings.format)
    for number, text in enumerate(found, 1):
        if settings.empty == "error" and not text.strip():
            where = place(file, number)
            raise DataError(f"{where}: holds no text; write one, or go on without it with --empty skip")
        yield Row(text, None, file, number, {})


def written(found: Iterable[tuple["Row", "Vector"]], writing: Writing) -> None:
    """One vector a text: a JSON line, also into a file, or a row of a table."""
    from rich.table import Table

    from clearhead.app import show

    count = cut = 0
    table = Table("text", "tokens", "vector")
    looked_at = writing.out is None and not show.plain(writing.json)

    def lines() -> Iterator[dict[str, Any]]:
        nonlocal count, cut
        for row, vector in found:
            count, cut = count + 1, cut + (vector.dropped > 0)
            if looked_at:
                some = vector.embedding or ()
                numbers = ", ".join(f"{number:.3f}" for number in some[:SHOWN])
                said = f"{numbers}, … ({len(some)} numbers)" if some else "(skipped)"
                words = " ".join(row.text.split())[:300]
                table.add_row(*map(show.shown, (words, f"{vector.tokens}", said)))
            yield {"text": row.text, **vector.__dict__}

    put(lines(), writing)
    if looked_at:
        show.out.print(table)
    if cut:
        show.say(f"note: longer than the model takes, and cut (see dropped): {cut} of {count} texts")


def told(found: list["Nearest"], writing: Writing) -> None:
    """The nearest texts to each query: a JSON line, also into a file, or a table."""
    from rich.table import Column, Table

    from clearhead.app import show

    looked_at = writing.out is None and not show.plain(writing.json)
    put((asdict(one) for one in found), writing)
    for one in found:
        if one.dropped:
            show.say(f"note: longer than the model takes, and cut: the query {one.query[:40]!r}")
        if looked_at:
            table = Table("row", Column("score", justify="right"), "text", title=show.shown(one.query))
            for near in one.nearest:
                words = " ".join(near.text.split())[:300]
                table.add_row(*map(show.shown, (f"{near.row}", f"{near.score:.3f}", words)))
            show.out.print(table)
    if cut := sum(near.dropped > 0 for one in found for near in one.nearest):
        show.say(f"note: longer than the model takes, and cut (see dropped): {cut} of the texts found")


def put(lines: Iterable[dict[str, Any]], writing: Writing) -> None:
    """JSON lines into a file or to stdout; on a terminal they are only made."""
    from clearhead.app import show
    from clearhead.app.writing import written as opened

    if writing.out is not None:
        with opened(writing.out) as file:
            file.writelines(show.as_line(line) for line in lines)
        return
    for line in lines:
        if show.plain(writing.json):
            show.emit(line)


def report_of(run: "EmbedRun") -> Path:
    """The report of a model that gives vectors: how well they tell what belongs together, and what it finds
    for a few texts that were kept aside."""
    from clearhead.app.reporting import SAMPLES, Told, report_of_texts
    from clearhead.data.rows import Row
    from clearhead.explain.report import Sample
    from clearhead.infer.couples import evaluate_couples
    from clearhead.infer.model import load
    from clearhead.infer.nearest import nearest

    model, some = load(run.out), run.chosen_by
    settings = run.settings
    asking = Embedded(long=settings.long, stride=settings.stride)
    scores, _ = evaluate_couples(model, some, settings=asking, scale=settings.scale, largest=run.largest)
    rows = [Row(couple.positive, None, couple.file, couple.row, {}) for couple in some]
    queries = [couple.anchor for couple in some[:SAMPLES]]
    found = nearest(model, rows, queries=queries, settings=asking, asking=asking, top=1)
    shown = zip(some, found, strict=False)
    said = Told(
        kind="a model that gives vectors",
        scored=f"{scores.texts:,} texts",
        samples=[
            Sample(
                prompt=couple.anchor,
                text=f" → {one.nearest[0].text} ({one.nearest[0].score:.3f}; there: {couple.positive})",
            )
            for couple, one in shown
        ],
        samples_source="First texts kept aside (bold), the nearest second text, and what is there.",
        ask=("Ask it", f'clearhead predict {argument(run.shown)} FILE --query "…"'),
    )
    return report_of_texts(run, model, scores=scores, told=said)
