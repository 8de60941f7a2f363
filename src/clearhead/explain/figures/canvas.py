"""What all figures have in common: colours that the colour-blind tell apart, texts drawn as they stand, and
matrices with the names of their rows and columns.

Colours: Okabe & Ito 2008 for lines; one hue from white for shares, and blue against red for signed numbers.
"""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from textwrap import fill
from typing import Any

import matplotlib
import matplotlib.style
import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, Normalize, PowerNorm
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FuncFormatter, NullFormatter
from numpy.typing import NDArray

from clearhead.data.wording import visible

BLUE, ORANGE, GREEN, PINK, SKY, RED = "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00"
LINES = (BLUE, RED, GREEN, PINK, ORANGE, SKY)
GREY, PALE, INK = "#59636e", "#e4e7eb", "#1f2328"
STYLE = {
    "font.family": ["sans-serif"],
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial", "Helvetica"],
    "font.size": 8.5,
    "axes.titlesize": 9.5,
    "axes.labelsize": 8.5,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "text.parse_math": False,
    "text.usetex": False,
    "svg.fonttype": "none",  # texts stay texts: they can be read out, searched, and shown in their own script
    "svg.hashsalt": "clearhead",
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
}
LONGEST = 18  # characters of a token that are shown


@contextmanager
def styled() -> Iterator[None]:
    """Draw in our style, whatever the user's is; a glyph that no font has shows as a box, without a word."""
    with warnings.catch_warnings(), matplotlib.style.context(["default", STYLE]):
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        warnings.filterwarnings("ignore", message="Matplotlib currently does not support")
        yield


def shown(text: str, most: int = LONGEST) -> str:
    """A text as it stands, control characters as their signs, a blank one as ␣, a long one cut."""
    made = visible(text).encode("utf-8", "replace").decode()
    made = "".join("\ufffd" if ord(one) & 0xFFFE == 0xFFFE else one for one in made)
    if not made.strip():
        return "␣" * max(1, min(len(made), 4))
    return made if len(made) <= most else f"{made[: most - 1]}…"


def canvas(width: float, height: float, *, title: str, caption: str = "") -> Figure:
    """An empty figure of so many inches, with a heading and, below, what it is of."""
    figure = Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(h_pad=0.08, w_pad=0.06))
    figure.suptitle(fill(title, int(width * 10.5)), fontsize=11, fontweight="bold", x=0.01, ha="left")
    if caption:
        lines = fill(caption, int(width * 16))
        figure.supxlabel(lines, fontsize=7.5, color=GREY, x=0.01, ha="left")
    return figure


def palette(name: str) -> Colormap:
    """Colours by what the numbers are: "share" or "signed"; what is no number is grey."""
    return colormaps["Blues" if name == "share" else "RdBu_r"].with_extremes(bad=PALE)


def shares(power: float = 1.0) -> Normalize:
    """0 to 1; with a power below 1 small shares can be seen beside large ones."""
    return Normalize(0, 1) if power == 1 else PowerNorm(power, 0, 1)


def signed(*numbers: Any) -> Normalize:
    """From −m to m, m the largest of all these numbers: 0 is white, and figures side by side compare."""
    largest = max(
        (float(np.nanmax(np.abs(some))) for some in numbers if some is not None and np.size(some)),
        default=1.0,
    )
    return Normalize(-(largest or 1.0), largest or 1.0)


def usual(*tables: NDArray[Any]) -> Normalize:
    """As `signed`, but for the largest hundredth, which has the darkest colours, too."""
    sizes = np.abs(np.concatenate([table[np.isfinite(table)] for table in tables]))
    return signed(np.quantile(sizes, 0.99)) if sizes.size else signed()


def heat(
    axes: Axes,
    values: NDArray[Any],
    *,
    colours: str,
    norm: Normalize,
    numbers: int | None = None,
    extent: tuple[float, float, float, float] | None = None,
) -> AxesImage:
    """A matrix in colours; with `numbers`, so many decimals in each cell. `extent` is left, right, bottom and
    top, in the units of the axes."""
    image = axes.imshow(
        values,
        cmap=palette(colours),
        norm=norm,
        aspect="auto",
        interpolation="auto",
        interpolation_stage="data",
        extent=extent,
    )
    if numbers is not None:
        left, right, bottom, top = extent or (-0.5, values.shape[1] - 0.5, values.shape[0] - 0.5, -0.5)
        wide, tall = (right - left) / values.shape[1], (top - bottom) / values.shape[0]
        for (row, column), value in np.ndenumerate(values):
            if np.isfinite(value):
                place = left + (column + 0.5) * wide, top - (row + 0.5) * tall
                dark = sum(image.cmap(norm(value))[:3]) < 1.6
                said = f"{value:.{numbers}f}".replace("-", "−")
                axes.text(*place, said, ha="center", va="center", fontsize=7.5, color="w" if dark else INK)
    return image


def square(axes: Axes) -> None:
    """Cells as wide as they are tall."""
    axes.set_aspect("equal")


def named(axes: Axes, *, rows: Sequence[str] = (), columns: Sequence[str] = (), size: float = 8) -> None:
    """The names of a matrix's rows and columns, columns above it; no ticks where there are none."""
    axes.tick_params(length=0)
    axes.set_yticks(range(len(rows)), [shown(name) for name in rows], fontsize=size)
    turned = max((len(shown(name)) for name in columns), default=0) > 3
    axes.set_xticks(
        range(len(columns)),
        [shown(name) for name in columns],
        fontsize=size,
        rotation=90 if turned else 0,
    )
    axes.xaxis.tick_top()
    axes.xaxis.set_label_position("top")
    for spine in axes.spines.values():
        spine.set_linewidth(0.5)


def scale(figure: Figure, image: AxesImage, *, axes: Any, label: str, **options: Any) -> None:
    """A colour bar beside these axes."""
    bar = figure.colorbar(image, ax=axes, **({"shrink": 0.75, "aspect": 22, "pad": 0.02} | options))
    bar.set_label(label)
    bar.outline.set_linewidth(0.5)
    bar.ax.tick_params(labelsize=7.5, length=2)


def plain(axes: Axes) -> None:
    """A plot without a box."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(length=2)


def powers(axes: Axes) -> None:
    """A logarithmic scale upwards, its powers written without formulas."""
    small = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(
        FuncFormatter(lambda value, _: f"10{str(round(np.log10(value))).translate(small)}")
    )
    axes.yaxis.set_minor_formatter(NullFormatter())


def bare(axes: Axes) -> None:
    """No frame and no ticks."""
    axes.set_axis_off()
