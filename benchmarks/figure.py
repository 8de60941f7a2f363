"""The figure of the README, as SVG. It stands on a card of its own, light or dark as the reader's system is,
and says nothing by colour alone."""

from html import escape
from typing import Any

WIDTH, LEFT, BAR, ROW, TOP = 760, 250, 300, 30, 92
QUESTION = "Each text alone, and again in a batch with others: does any bit of its scores differ?"
STYLE = """
  text { font: 14px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328 }
  .card { fill: #ffffff; stroke: #d1d9e0 }
  .title { font-size: 17px; font-weight: 600 }
  .small { font-size: 12px; fill: #59636e }
  .ours { font-weight: 600 }
  .track { fill: #d1d9e0; fill-opacity: .45 }
  .bar { fill: #b35900 }
  .none { fill: none; stroke: #0969da; stroke-width: 2.5 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .small { fill: #9198a1 } .track { fill: #3d444d }
    .card { fill: #0d1117; stroke: #3d444d } .bar { fill: #f0883e } .none { stroke: #58a6ff }
  }
"""


def neighbours(rows: list[dict[str, Any]], *, texts: int, notes: list[str]) -> str:
    """A bar for each engine: how many texts changed. None changed: a ring instead of a bar.

    A row has engine, precision, changed_in_any and largest_change; notes are the lines of small print.
    """
    parts, y = [], TOP
    for precision in dict.fromkeys(row["precision"] for row in rows):
        parts.append(f'<text class="small" x="24" y="{y}">{escape(precision)}</text>')
        y += 12
        for row in (row for row in rows if row["precision"] == precision):
            parts.append(bar(row, y, texts=texts))
            y += ROW
        y += 24
    height = y + 18 * len(notes)
    small = [
        f'<text class="small" x="24" y="{y + 18 * number}">{escape(line)}</text>'
        for number, line in enumerate(notes)
    ]
    told = "; ".join(f"{row['engine']} {row['precision']} {row['changed_in_any']}" for row in rows)
    title = f"Texts whose scores change with their neighbours, of {texts}"
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img"
  aria-labelledby="title told">
<title id="title">{title}</title>
<desc id="told">{escape(told)}</desc>
<style>{STYLE}</style>
<rect class="card" x=".5" y=".5" width="{WIDTH - 1}" height="{height - 1}" rx="8"/>
<text class="title" x="24" y="34">{title}</text>
<text class="small" x="24" y="54">{QUESTION}</text>
<text class="small" x="{LEFT + BAR + 100}" y="{TOP}">largest change</text>
{chr(10).join(parts)}
{chr(10).join(small)}
</svg>
"""


def bar(row: dict[str, Any], y: int, *, texts: int) -> str:
    """One engine."""
    changed, middle = row["changed_in_any"], y + ROW / 2
    length = BAR * changed / texts
    ours = ' class="ours"' if row["engine"] == "clearhead" else ""
    if changed:
        mark = f'<rect class="bar" x="{LEFT}" y="{y + 7}" width="{max(2, length):.1f}" height="16" rx="3"/>'
    else:
        mark = f'<circle class="none" cx="{LEFT + 8}" cy="{middle}" r="6"/>'
    points = 100 * row["largest_change"]  # of a probability
    change = "none" if not changed else f"{points:.2g} points" if points >= 0.001 else "< 0.001 points"
    return f"""<text{ours} x="24" y="{middle + 5}">{escape(row["engine"])}</text>
<rect class="track" x="{LEFT}" y="{y + 7}" width="{BAR}" height="16" rx="3"/>{mark}
<text{ours} x="{LEFT + BAR + 14}" y="{middle + 5}">{changed} of {texts}</text>
<text class="small" x="{LEFT + BAR + 100}" y="{middle + 5}">{escape(change)}</text>"""
