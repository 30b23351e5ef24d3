"""Pictures of the gallery as SVG files: sharp, dark where the reader's system is, and with words for people who cannot see them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from docutils import nodes
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.text import Text
from sphinx.application import Sphinx
from sphinx_gallery.scrapers import figure_rst

from labeldp import plots
from labeldp.plots.axes import INK

MOST_BYTES = 200_000


def picture(_block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """Save what the script calls `picture`, once, and return how to show it."""
    drawn = block_vars["example_globals"].pop("picture", None)
    if not isinstance(drawn, Axes | Figure):
        return ""
    words = block_vars["example_globals"].pop("in_words", None) or plots.in_words(drawn)
    figure = drawn if isinstance(drawn, Figure) else drawn.figure
    for text in figure.findobj(Text):
        if to_hex(text.get_color()) == "#000000":  # matplotlib's own: not turned light on dark pages
            text.set_color(INK)
    path = Path(next(block_vars["image_path_iterator"])).with_suffix(".svg")
    plots.save(drawn, path, alt=words)
    if path.stat().st_size > MOST_BYTES:  # thousands of contours: as pixels, with text and axes still sharp
        for axes in figure.axes:
            for part in axes.collections:
                part.set_rasterized(True)
        plots.save(drawn, path, alt=words)
    return figure_rst([path], gallery_conf["src_dir"], fig_titles=words)


def remove_note(app: Sphinx, document: nodes.document) -> None:
    """Leave out the note at the head that there are files to download: search results would show it."""
    if app.env.docname.startswith("pictures/"):
        for note in list(document.findall(nodes.note)):
            if "sphx-glr-download-link-note" in note["classes"]:
                note.parent.remove(note)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("doctree-read", remove_note)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _get_sg_image_scraper() -> Any:
    return picture
