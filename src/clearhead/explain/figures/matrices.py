"""Attention as products of matrices, each drawn to scale."""

from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from clearhead.explain.figures.canvas import GREY, bare, canvas, heat, shares, signed
from clearhead.explain.figures.given import Given, refuse_long
from clearhead.explain.figures.numbers import Array, one_head

Part = str | tuple[str, Array]
ACROSS = 9.4  # inches for a formula
SIGNS = {"softmax": 0.72, "·": 0.2, "=": 0.34, "(": 0.14, ")": 0.14}  # inches of each sign; others by length


def matrix(given: Given) -> Figure:
    """Sa = V · Softmax(KᵀQ) (Prince, figure 12.4) and, transposed and in reverse order, what published models
    compute (Vaswani et al. 2017, equation 1): a cell is as large everywhere."""
    one = one_head(given)
    tokens, width = one.keys.shape
    refuse_long(given, tokens, most=64)
    root = [f"/ √{width}"] if one.scale != 1 else []
    upper: list[Part] = [
        ("V", one.values.T), "·", "softmax", "(", ("Kᵀ", one.keys), "·", ("Q", one.queries.T), *root, ")",
        "=", ("V", one.values.T), "·", ("A", one.weights.T), "=", ("Sa", one.outputs.T),
    ]  # fmt: skip
    lower: list[Part] = [
        "softmax", "(", ("Q", one.queries), "·", ("Kᵀ", one.keys.T), *root, ")", "·", ("V", one.values),
        "=", ("A", one.weights), "·", ("V", one.values), "=", ("Sa", one.outputs),
    ]  # fmt: skip
    dense = max(cells_an_inch(parts) for parts in (upper, lower))
    tall = max(tokens, width) / dense + 0.45
    figure = canvas(
        ACROSS + 0.2,
        2 * tall + 1.3,
        title=f"The same in matrices: {tokens} tokens, vectors of {width} numbers",
        caption=one.whose
        + " Red above 0, blue below; weights (A) from white to blue. All cells are as large.",
    )
    norm = signed(one.queries, one.keys, one.values, one.outputs)
    for axes, parts, head in zip(
        figure.subplots(2, 1), (upper, lower), ("a token a column", "a token a row"), strict=True
    ):
        put(axes, parts, norm=norm, dense=dense)
        axes.set(xlim=(-0.02 * dense, (ACROSS + 0.02) * dense), ylim=(tall * dense / 2, -tall * dense / 2))
        axes.set_title(head, loc="left", color=GREY)
        axes.set_aspect("equal")
        bare(axes)
    return figure


def sign_width(sign: str) -> float:
    """Inches for a sign between matrices."""
    return SIGNS.get(sign, 0.12 * len(sign) + 0.1)


def cells_an_inch(parts: list[Part]) -> float:
    """How many cells must fit in an inch for a formula to fit."""
    cells = sum(part[1].shape[1] for part in parts if not isinstance(part, str))
    inches = sum(sign_width(part) for part in parts if isinstance(part, str))
    return cells / (ACROSS - inches)


def put(axes: Axes, parts: list[Part], *, norm: Normalize, dense: float) -> None:
    """A formula from left to right: matrices with their names and shapes, signs between them."""
    left = 0.0
    for part in parts:
        if isinstance(part, str):
            wide = sign_width(part) * dense
            axes.text(left + wide / 2, 0, part, ha="center", va="center", fontsize=11)
        else:
            name, numbers = part
            down, wide = numbers.shape
            at = (left, left + wide, down / 2, -down / 2)
            share = name == "A"
            heat(
                axes,
                numbers,
                colours="share" if share else "signed",
                norm=shares() if share else norm,
                extent=at,
            )
            axes.plot(
                [at[0], at[1], at[1], at[0], at[0]],
                [at[2], at[2], at[3], at[3], at[2]],
                color=GREY,
                linewidth=0.6,
            )
            axes.text(
                left + wide / 2, at[3] - 0.06 * dense, name, ha="center", va="bottom", fontweight="bold"
            )
            axes.text(
                left + wide / 2,
                at[2] + 0.06 * dense,
                f"{down} × {wide}",
                ha="center",
                va="top",
                fontsize=7,
                color=GREY,
            )
        left += wide
