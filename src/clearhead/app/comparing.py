"""One text in two models: where the second parts from the first."""

from dataclasses import asdict
from math import isfinite
from typing import TYPE_CHECKING, Any

from clearhead.settings import Explaining

if TYPE_CHECKING:
    from clearhead.explain.compare import Comparison, Gap
    from clearhead.infer.model import Model


def compared(one: "Model", other: "Model", *, text: Any, settings: Explaining) -> int:
    """Where two models part; 1 if they do."""
    from clearhead.app import show
    from clearhead.explain.compare import compare

    found = compare(one, other, text=text, answer=settings.answer, tolerance=settings.tolerance)
    if settings.out == "-" or show.plain(settings.json):
        show.emit(told_comparison(found, models=[one.name, other.name]))
    else:
        comparison_table(found, models=[one.name, other.name])
    return int(found.first is not None)


def told_comparison(found: "Comparison", *, models: list[str]) -> dict[str, Any]:
    """A comparison as one object; a difference that is no number is null."""

    def gap(one: "Gap") -> dict[str, Any]:
        heads = [head if isfinite(head) else None for head in one.heads]
        apart = one.difference if isfinite(one.difference) else None
        return asdict(one) | {"difference": apart, "heads": heads}

    first = None if found.first is None else gap(found.first) | {"apart": list(found.heads)}
    return {
        "models": models,
        "tokens": list(found.tokens),
        "agree": found.first is None,
        "tolerance": found.tolerance,
        "first": first,
        "facts": list(found.facts),
        "gaps": [gap(one) for one in found.gaps],
    }


def comparison_table(found: "Comparison", *, models: list[str]) -> None:
    """The largest difference of each layer, and the first that counts."""
    from rich.table import Column, Table

    from clearhead.app import show

    table = Table("layer", "furthest apart at", Column("by", justify="right"), "")
    layers: dict[tuple[str, int], list[Gap]] = {}
    for gap in found.gaps:
        layers.setdefault((gap.stack, gap.layer), []).append(gap)
    for (stack, layer), gaps in layers.items():
        worst = max(gaps, key=lambda gap: gap.difference if isfinite(gap.difference) else float("inf"))
        parted = "" if worst.difference <= found.tolerance else "apart"
        table.add_row(f"{stack} {layer}".strip(), worst.point, f"{worst.difference:.2g}", parted)
    show.out.print(
        show.shown(f"{' and '.join(models)}: {len(found.tokens)} tokens, tolerance {found.tolerance:g}")
    )
    show.out.print(table)
    for fact in found.facts:
        show.out.print(show.shown(f"their architectures differ: {fact}"))
    if found.first is None:
        show.out.print("they agree")
        return
    heads = ", ".join(map(str, found.heads))
    where = f"{found.first.where}{f', heads {heads}' if len(found.heads) > 1 else ''}"
    where += f", head {heads}" if len(found.heads) == 1 else ""
    show.out.print(
        show.shown(f"they part at {where}: {found.first.difference:.2g} of the largest number there")
    )
