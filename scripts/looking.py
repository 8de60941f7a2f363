"""The figures of docs/figures.md, and the figures and numbers of docs/looking.md, from the models that
`clearhead get` has fetched (minilm, smollm2): `python scripts/looking.py`. It downloads nothing.

Figures go to docs/figures, tables to where the page has <!-- table NAME --> … <!-- end -->.
"""

import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torch.nn.functional import cosine_similarity

import clearhead as ch
from clearhead.engine.modes import own_modes
from clearhead.explain.attribution import attribution
from clearhead.explain.edit import ablate, edit
from clearhead.explain.effects import rollout
from clearhead.explain.figures import FIGURES, draw, save
from clearhead.explain.figures.canvas import canvas, heat, scale, shares, square, styled
from clearhead.explain.look import tokens_of
from clearhead.explain.objective import Reading
from clearhead.explain.record import Record, record

DOCS = Path(__file__).parent.parent / "docs"
START = "The restaurant refused to serve me a ham sandwich because it"
PASSAGE = (
    f"{START} only cooks vegetarian food. In the end, they just gave me two slices of bread. "
    "Their ambiance was just as good as the food and service."
)
ENDS = (
    "only cooks vegetarian food.", "was closed.", "was out of bread.", "was too expensive to make.",
    "was stale.", "was mouldy.",
)  # fmt: skip
QUESTION = ' In this text, the word "it" refers to the'
PAIRS = (("it", "restaurant"), ("it", "sandwich"), ("they", "restaurant"), ("Their", "restaurant"))
DRAWS = 20


def seen_of(reading: Reading) -> Record:
    """Weights and the last stream of a text."""
    last = reading.model.config.layers - 1
    with own_modes(), record(reading.model) as weights:
        reading.run()
    with own_modes(), record(reading.model, layers=last, what="resid_post") as stream:
        reading.run()
    return Record(weights[0].ids, weights[0].queries, weights[0].points | stream[0].points)


def place(reading: Reading, word: str) -> int:
    """Where a word stands."""
    return [token.text for token in tokens_of(reading)].index(word)


def between(one: Record, query: int, *, key: int) -> torch.Tensor:
    """The weight of each head from one token to another, `[layers, heads]`."""
    return torch.stack([one.attention[layer][:, query, key] for layer in sorted(one.attention)])


def most(weights: torch.Tensor, count: int) -> list[tuple[int, int]]:
    """The heads with the largest weights, the largest first."""
    found = weights.flatten().topk(count).indices.tolist()
    return [divmod(one, weights.shape[1]) for one in found]


def heads_table(reading: Reading, one: Record) -> Iterator[str]:
    """Of each pair the three heads that look most, the mean of all, and what rollout says."""
    yield "| from → to | the three heads that look most (layer.head: weight) | mean of all heads | rollout |"
    yield "| --- | --- | ---: | ---: |"
    reached = rollout(one)[-1]
    for query, key in PAIRS:
        at, to = place(reading, query), place(reading, key)
        weights = between(one, at, key=to)
        best = ", ".join(f"{layer}.{head}: {weights[layer, head]:.2f}" for layer, head in most(weights, 3))
        yield f"| *{query}* → *{key}* | {best} | {weights.mean():.3f} | {reached[at, to]:.4f} |"
    first = tokens_of(reading)[0].text
    at = place(reading, "it")
    mean = between(one, at, key=0).mean()
    yield f"| *it* → *{first}*, the first token | | {mean:.3f} | {reached[at, 0]:.4f} |"


def pairs_figure(reading: Reading, one: Record, *, name: str) -> None:
    """The weights of all heads for each pair, beside each other."""
    layers, heads = reading.model.config.layers, reading.model.config.heads
    with styled():
        each = 0.2 if layers <= 12 else 0.15
        figure = canvas(
            max(7.6, 4 * each * heads + 2),
            each * layers + 1.7,
            title="How much each head looks from one word to another",
            caption=f"{name}, the passage about the restaurant.",
        )
        every = figure.subplots(1, len(PAIRS))
        for axes, (query, key) in zip(every, PAIRS, strict=True):
            weights = between(one, place(reading, query), key=place(reading, key))
            image = heat(axes, weights.numpy(), colours="share", norm=shares())
            axes.set_title(f"{query} → {key}")
            axes.set_xticks(range(0, heads, 3))
            axes.set_yticks(range(0, layers, 1 if layers <= 12 else 5))
            axes.set(xlabel="head", ylabel="layer" if axes is every[0] else "")
            axes.tick_params(length=2, labelsize=7.5)
            square(axes)
        scale(figure, image, axes=list(every), label="weight")
    save(figure, DOCS / "figures" / f"looking-{name}.svg")


def ends_table(model: ch.Model, head: tuple[int, int]) -> Iterator[str]:
    """One head's weights from *it*, for sentences that end otherwise; and how like the last vectors are."""
    layer, number = head
    what = f"*restaurant* by {layer}.{number} | *sandwich* by it"
    yield f"| {START} … | {what} | likeness to *restaurant* | to *sandwich* |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    for end in ENDS:
        reading = Reading.of(model, f"{START} {end}")
        one = seen_of(reading)
        it, places = place(reading, "it"), [place(reading, word) for word in ("restaurant", "sandwich")]
        weights = [f"{one.attention[layer][number, it, key]:.2f}" for key in places]
        (stream,) = one["resid_post"].values()
        likes = [f"{cosine_similarity(stream[it], stream[key], dim=0):.2f}" for key in places]
        yield f"| … {end} | {' | '.join(weights)} | {' | '.join(likes)} |"


def said(reading: Reading) -> tuple[float, float]:
    """The log-probabilities of restaurant and sandwich as the next word."""
    model = reading.model
    ids = []
    for word in (" restaurant", " sandwich"):
        (encoding,) = model.tokenizer.encode([str(reading.text) + word], limit=None)
        ids.append(encoding.ids[len(reading.encoding.ids)])
    with own_modes():
        stream, batch = reading.run()
        logits = model.loaded.network.next_logits(stream[batch.layout.slices[0]][-1:])
        found = logits.log_softmax(-1)[0, ids].tolist()
    return found[0], found[1]


def without_table(reading: Reading, chosen: Sequence[tuple[int, int]]) -> Iterator[str]:
    """The model's choice without heads that look from *it* to the restaurant, and without others."""
    config, chance = reading.model.config, random.Random(0)
    every = [(layer, head) for layer in range(config.layers) for head in range(config.heads)]
    others = [one for one in every if one not in chosen]
    yield "| | log-probability of *restaurant* | of *sandwich* | difference |"
    yield "| --- | ---: | ---: | ---: |"

    def row(name: str, heads: Sequence[tuple[int, int]]) -> str:
        with edit(reading.model, *(ablate(*one) for one in heads)):
            one, other = said(reading)
        return f"| {name} | {one:.2f} | {other:.2f} | {one - other:.2f} |".replace("-", "−")

    yield row("all heads", [])
    names = ", ".join(f"{layer}.{head}" for layer, head in chosen)
    yield row(f"without {chosen[0][0]}.{chosen[0][1]}", chosen[:1])
    yield row(f"without {names}", chosen)
    drawn = []
    for _ in range(DRAWS):
        with edit(reading.model, *(ablate(*one) for one in chance.sample(others, len(chosen)))):
            drawn.append(said(reading))
    spans = [sorted(one) for one in (*zip(*drawn, strict=True), [a - b for a, b in drawn])]
    cells = " | ".join(f"{span[0]:.2f} to {span[-1]:.2f}".replace("-", "−") for span in spans)
    yield f"| without {len(chosen)} others, drawn {DRAWS} times | {cells} |"


def attribution_table(reading: Reading) -> Iterator[str]:
    """The tokens that speak most for the model's own answer."""
    found = attribution(reading)
    tokens = [token.text for token in tokens_of(reading)]
    yield f"| token | what it adds to the log-probability of *{found.objective.name.strip()}* |"
    yield "| --- | ---: |"
    order = found.values.abs().argsort(descending=True).tolist()[:6]
    wanted = [place(reading, word) for word in ("restaurant", "sandwich", "it")]
    for at in [*order, *(at for at in wanted if at not in order)]:
        yield f"| {tokens[at]} (token {at}) | {found.values[at]:+.2f} |".replace("-", "−")
    total = f"{found.values.sum():.2f} of {found.score - found.baseline:.2f}".replace("-", "−")
    yield f"| all {len(tokens)} together | {total} |"


def fill_in(page: Path, tables: dict[str, Iterator[str]]) -> None:
    """Put tables where the page has a place for them."""
    text = page.read_text()
    for name, lines in tables.items():
        made = "\n".join(lines)
        print(f"{name}\n{made}\n")
        place = re.compile(rf"(<!-- table {name} -->\n).*?(<!-- end -->)", flags=re.S)
        text, count = place.subn(lambda found, made=made: f"{found[1]}\n{made}\n\n{found[2]}", text)
        assert count == 1, f"{page} has {count} places for {name}"
    page.write_text(text)


def main() -> None:
    """Draw and measure everything."""
    (DOCS / "figures").mkdir(exist_ok=True)
    for name in FIGURES:
        try:
            save(draw(name), DOCS / "figures" / f"example-{name}.svg")
        except ch.ClearheadError as error:
            print(error)
    tables, chosen = {}, {}
    models = {name: ch.load(name) for name in ("minilm", "smollm2")}
    for name, model in models.items():
        reading = Reading.of(model, PASSAGE)
        one = seen_of(reading)
        pairs_figure(reading, one, name=name)
        tables[f"heads {name}"] = heads_table(reading, one)
        weights = between(one, place(reading, "it"), key=place(reading, "restaurant"))
        chosen[name] = most(weights, 6)
    layer, head = chosen["minilm"][0]
    figure = draw("head", model=models["minilm"], text=PASSAGE, layer=layer, head=head)
    save(figure, DOCS / "figures" / "looking-head.svg")
    tables["ends"] = ends_table(models["minilm"], (layer, head))
    asked = Reading.of(models["smollm2"], PASSAGE + QUESTION)
    tables["without"] = without_table(asked, chosen["smollm2"])
    tables["attribution"] = attribution_table(asked)
    for name in ("effects", "roles"):
        figure = draw(name, model=models["smollm2"], text=None if name == "roles" else PASSAGE + QUESTION)
        save(figure, DOCS / "figures" / f"looking-{name}.svg")
    fill_in(DOCS / "looking.md", tables)


if __name__ == "__main__":
    main()
