"""A self-contained HTML page with text, tables and plots. It loads nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from labeldp.plots import in_words, svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #444c56; --quiet: #606874; --line: #e3e5e8; --page: #fbfbfa;
        --box: #eef0f2; --card: #ffffff; --best: #8c3f89; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ed; --soft: #c3c9d1; --quiet: #a8b0ba; --line: #343b44; --page: #0e1115; --box: #232931;
          --card: #15191e; --best: #d3a2e6; } }
body { font: 16px/1.55 system-ui, sans-serif; color: var(--ink); background: var(--page); margin: 0; }
main { max-width: 60rem; margin: 0 auto; padding: 2.5rem 1.5rem 4rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .4rem; }
h2 { font-size: 1.25rem; margin: 2.6rem 0 .6rem; padding-top: 1rem; border-top: 1px solid var(--line); }
h3 { font-size: 1.1rem; margin: .2rem 0 .6rem; } h4 { font-size: 1rem; margin: 1.2rem 0 .3rem; }
p.lead { font-size: 1.1rem; color: var(--soft); margin: 0 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; font-size: .93rem; }
caption { text-align: left; color: var(--quiet); font-size: .88rem; padding-bottom: .4rem; }
th, td { padding: .3rem .8rem; text-align: right; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
thead th { border-bottom: 2px solid var(--ink); font-weight: 600; vertical-align: bottom; }
td.best { font-weight: 700; color: var(--best); }
figure { margin: 1.2rem 0; } figure svg { display: block; width: 100%; max-width: 38rem; height: auto; border-radius: 8px; }
figcaption { color: var(--quiet); font-size: .88rem; margin-top: .4rem; }
code { background: var(--box); padding: .1rem .3rem; border-radius: 3px; font-size: .9em; overflow-wrap: anywhere; }
pre { background: var(--box); padding: .8rem 1rem; white-space: pre-wrap; border-radius: 5px; font-size: .85rem; }
p, article { max-width: 46rem; }
article { box-sizing: border-box; background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 1rem 1.3rem; font-size: .95rem; }
summary { cursor: pointer; color: var(--quiet); font-size: .93rem; }
.wide { overflow-x: auto; }
@media (max-width: 30rem) { main { padding: 1.5rem 1rem 3rem; } th, td { padding: .3rem .45rem; } }
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
            f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head>\n<body><main>'
            f"<h1>{escape(self.title)}</h1><p class=lead>{escape(self.lead)}</p>\n"
            + "\n".join(self.parts)
            + "\n</main></body></html>\n"
        )

    def write(self, path: Path) -> None:
        partial = path.with_name(f".{path.name}.partial")
        partial.write_text(self.html(), encoding="utf-8")
        partial.replace(path)
