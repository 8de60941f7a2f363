"""`python -m clearhead.explain.figures NAME --out FILE`: a figure of the reference example, or of a model."""

import argparse
import sys
from collections.abc import Sequence

from clearhead.errors import ClearheadError
from clearhead.explain.figures import FIGURES, draw, save


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw what was asked for; 2 and one line where that cannot be."""
    names = "\n".join(f"  {name:12} {line}" for name, line in FIGURES.items())
    parser = argparse.ArgumentParser(
        prog="python -m clearhead.explain.figures",
        description=f"Draw a figure.\n\n{names}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", help="one of the above")
    parser.add_argument("--out", required=True, help="the file to write: .svg or .png")
    parser.add_argument("--model", help="a folder, or a name that was fetched; else the reference example")
    parser.add_argument("--text", help="what the model reads")
    parser.add_argument("--layer", type=int, help="from 0; negative: from the last")
    parser.add_argument("--head", type=int, help="from 0; negative: from the last")
    asked = parser.parse_args(arguments)
    try:
        model = None
        if asked.model is not None:
            from clearhead.infer.model import load

            model = load(asked.model)
        save(draw(asked.name, model=model, text=asked.text, layer=asked.layer, head=asked.head), asked.out)
    except ClearheadError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
