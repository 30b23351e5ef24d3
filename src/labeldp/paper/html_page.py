"""A self-contained HTML page with text, tables and plots. It loads nothing from elsewhere."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.55 system-ui, sans-serif; color: #1b1f24; background: #fbfbfa; margin: 0; }
main { max-width: 60rem; margin: 0 auto; padding: 2.5rem 1.5rem 4rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .4rem; }
h2 { font-size: 1.25rem; margin: 2.6rem 0 .6rem; padding-top: 1rem; border-top: 1px solid #e3e5e8; }
p.lead { font-size: 1.1rem; color: #444c56; margin: 0 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; font-size: .93rem; }
caption { text-align: left; color: #6b7280; font-size: .88rem; padding-bottom: .4rem; }
th, td { padding: .3rem .8rem; text-align: right; border-bottom: 1px solid #e3e5e8; }
th:first-child, td:first-child { text-align: left; }
thead th { border-bottom: 2px solid #1b1f24; font-weight: 600; vertical-align: bottom; }
td.best { font-weight: 700; color: #a63d28; }
figure { margin: 1.2rem 0; } figure svg { width: 100%; height: auto; }
figcaption { color: #6b7280; font-size: .88rem; }
code { background: #eef0f2; padding: .1rem .3rem; border-radius: 3px; font-size: .9em; }
pre { background: #eef0f2; padding: .8rem 1rem; white-space: pre-wrap; border-radius: 5px; font-size: .85rem; }
.wide { overflow-x: auto; }
"""


@dataclass
class Report:
    """A page that is built from top to bottom and saved by `write`."""

    title: str
    lead: str
    parts: list[str] = field(default_factory=list)

    def heading(self, text: str) -> None:
        self.parts.append(f"<h2>{escape(text)}</h2>")

    def text(self, text: str) -> None:
        """Add a paragraph. Text in backticks is shown as code."""
        pieces = escape(text).split("`")
        self.parts.append("<p>" + "".join(f"<code>{p}</code>" if i % 2 else p for i, p in enumerate(pieces)) + "</p>")

    def preformatted(self, text: str) -> None:
        self.parts.append(f"<pre>{escape(text)}</pre>")

    def table(
        self, columns: Sequence[str], rows: Sequence[Sequence[str]], *, caption: str = "", best: Sequence[int] = ()
    ) -> None:
        """Add a table of text cells. `best` holds the column to print in bold for each row, or −1."""
        head = "".join(f"<th>{escape(column)}</th>" for column in columns)
        lines = []
        for number, row in enumerate(rows):
            bold = best[number] if best else -1
            cells = "".join(
                f"<td{' class=best' if place == bold else ''}>{escape(cell)}</td>" for place, cell in enumerate(row)
            )
            lines.append(f"<tr>{cells}</tr>")
        title = f"<caption>{escape(caption)}</caption>" if caption else ""
        self.parts.append(
            f"<div class=wide><table>{title}<thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>"
        )

    def figure(self, drawn: Axes | Figure, caption: str = "") -> None:
        self.parts.append(f"<figure>{svg(drawn)}<figcaption>{escape(caption)}</figcaption></figure>")

    def html(self) -> str:
        return (
            f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(self.title)}</title>'
            f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head>\n<body><main>'
            f"<h1>{escape(self.title)}</h1><p class=lead>{escape(self.lead)}</p>\n"
            + "\n".join(self.parts)
            + "\n</main></body></html>\n"
        )

    def write(self, path: Path) -> None:
        partial = path.with_name(f".{path.name}.partial")
        partial.write_text(self.html(), encoding="utf-8")
        partial.replace(path)


def svg(drawn: Axes | Figure) -> str:
    """The figure as inline SVG. Text stays text, and the same figure gives the same bytes."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    figure = drawn if isinstance(drawn, Figure) else drawn.get_figure(root=True)
    assert figure is not None
    buffer = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "labeldp", "font.family": "sans-serif"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]
