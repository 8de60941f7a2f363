"""Facts and sizes of a model, in words."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.app.show import emit, pairs, plain
from clearhead.errors import FolderError
from clearhead.model.config import Head, Learned, Over, Positions, Relative, Rotary, Sinusoidal
from clearhead.settings import Opening

if TYPE_CHECKING:
    from clearhead.infer.model import Model


def info(model: str, opening: Opening, *, as_json: bool) -> None:
    """Facts and sizes of a folder or of an architecture by name."""
    from clearhead.checkpoint.architectures import ARCHITECTURES
    from clearhead.checkpoint.families import FAMILIES
    from clearhead.checkpoint.sizes import sizes
    from clearhead.infer.model import load

    if model in ARCHITECTURES and not Path(model).exists():
        known = ARCHITECTURES[model]
        config, head, context, printed = known.config, known.head, known.context, known.printed
        facts: dict[str, Any] = {"name": model, "printed": printed}
    else:
        try:
            loaded = load(model, **asdict(opening))
        except FolderError as error:
            if Path(model).exists():
                raise
            raise FolderError(f"{error}; architectures by name: {', '.join(ARCHITECTURES)}") from error
        config, head = loaded.config, loaded.loaded.network.head_facts
        context = min(loaded.limit or 512, 512)
        facts = {"folder": str(loaded.loaded.folder), "family": loaded.loaded.family.model_type}
        facts["labels"] = list(loaded.loaded.labels)
        if loaded.embeds:
            facts["vectors"] = said_vectors(loaded)
    size = sizes(config, head, context=context)
    costs = asdict(size) | {"weight_bytes": size.weight_bytes, "training_bytes": size.training_bytes}
    if plain(as_json):
        said = FAMILIES["clearhead"].fields(config, head) or {}
        emit(facts | {"facts": said["facts"], "head": said["head"], "sizes": costs})
        return
    lines = {name: value for name, value in facts.items() if value}
    if "vectors" in lines:
        lines["vectors"] = ", ".join(f"{name} {value}" for name, value in lines["vectors"].items() if value)
    stack = (
        f"{config.layers} blocks"
        if not config.decoder_layers
        else f"{config.layers} + {config.decoder_layers} blocks"
    )
    masks = "what stands behind masks" if config.fill else ""
    lines |= {
        "shape": f"{stack}, width {config.width:,}, {config.heads} heads of {config.each_head}, "
        f"feed-forward {config.hidden:,}, vocabulary {config.vocab:,}",
        "positions": f"{said_positions(config.positions)}; "
        f"layer norm {'before' if config.norm_first else 'after'} attention and feed-forward",
        "head": said_head(head) if head else masks or "none",
        "parameters": f"{size.parameters:,} ({size.embedding:,} of them in embedding tables)",
        "memory": f"{big(size.weight_bytes)}B of float32 weights; "
        f"{big(size.training_bytes)}B to train with AdamW, without activations",
        "operations": f"{big(size.operations)} multiply-adds a token, forward, in a text of {context} tokens",
    }
    pairs(lines, as_json=False)


def said_head(head: Head) -> str:
    """A head in words."""
    match head.over:
        case Over.TOKENS:
            return f"tags each word by its first piece, {head.labels} labels"
        case Over.SPANS:
            return "where an answer begins and ends"
        case Over.TEXTS:
            return f"{head.pooling} pooling, {head.labels} labels"


def said_vectors(model: "Model") -> dict[str, Any]:
    """How a model makes vectors."""
    from clearhead.infer.embed import facts_of, limit_of
    from clearhead.settings import Embedded

    how = facts_of(model, Embedded())
    return {
        "dimensions": min(how.dimensions or model.config.width, model.config.width),
        "pooling": str(how.pooling),
        "normalised": how.normalise,
        "similarity": how.similarity,
        "most_tokens": limit_of(model),
        "prompts": dict(how.prompts),
        "default_prompt": how.default,
    }


def said_positions(positions: Positions) -> str:
    """Positions in words."""
    match positions:
        case Learned(count=count):
            return f"learned, at most {count:,} tokens"
        case Sinusoidal():
            return "sinusoidal, no longest text"
        case Rotary(count=count):
            return f"rotary, at most {count:,} tokens"
        case Relative(buckets=buckets):
            return f"relative, {buckets} buckets"


def big(number: float) -> str:
    """A number with three digits and a prefix."""
    for prefix in ("", "k", "M", "G", "T", "P"):
        if number < 1000:
            return f"{number:.3g} {prefix}"
        number /= 1000
    return f"{number:.3g} E"
