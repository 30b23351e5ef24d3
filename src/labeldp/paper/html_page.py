"""A self-contained HTML page with text, tables and plots. It loads nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from labeldp.plots import in_words, svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STYLE = files("labeldp.paper").joinpath("report.css").read_text(encoding="utf-8")


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

    def figure(self, drawn: Axes | Figure, caption: str, *, alt: str = "") -> None:
        """Add a plot. `alt` describes it to people who do not see it, by default in the words of `in_words`."""
        picture = svg(drawn, alt=alt or in_words(drawn))
        self.parts.append(f"<figure>{picture}<figcaption>{escape(caption)}</figcaption></figure>")

    def markdown(self, text: str) -> None:
        """Add a text in Markdown as its own box, with its headings two levels down. HTML in it is shown, not used."""
        from markdown_it import MarkdownIt

        parser = MarkdownIt("commonmark", {"html": False})
        tokens = parser.parse(text)
        for token in tokens:
            if token.type in ("heading_open", "heading_close"):
                token.tag = f"h{min(int(token.tag[1]) + 2, 6)}"
        self.parts.append(f"<article>{parser.renderer.render(tokens, parser.options, {})}</article>")

    def details(self, summary: str) -> None:
        """Fold the part that was added last: only its summary shows until the reader opens it."""
        self.parts[-1] = f"<details><summary>{escape(summary)}</summary>{self.parts[-1]}</details>"

    def html(self) -> str:
        return (
            f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(self.title)}</title>'
            f'<meta name="viewport" content="width=device-width"><style>\n{STYLE}</style></head>\n<body><main>'
            f"<h1>{escape(self.title)}</h1><p class=lead>{escape(self.lead)}</p>\n"
            + "\n".join(self.parts)
            + "\n</main></body></html>\n"
        )

    def write(self, path: Path) -> None:
        partial = path.with_name(f".{path.name}.partial")
        partial.write_text(self.html(), encoding="utf-8")
        partial.replace(path)
