"""Reports are one HTML file that shows what it was given and loads nothing."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from palette import contrast

from labeldp import plots
from labeldp.paper.html_page import STYLE, Report

VOID = {"meta", "path", "use"}


class Outline(HTMLParser):
    """Collects (tag, attributes, text) of every element, and checks that tags are closed in order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.elements = [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.elements.append([tag, dict(attributes), ""])
        if tag not in VOID:
            self.open.append(self.elements[-1])

    def handle_startendtag(self, tag, attributes):
        self.elements.append([tag, dict(attributes), ""])

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop()[0] == tag

    def handle_data(self, data):
        if self.open:
            self.open[-1][2] += data

    def texts(self, tag):
        return [text for name, _, text in self.elements if name == tag]


def test_a_page_has_its_parts_in_order_with_text_escaped(tmp_path):
    report = Report("A < B", "lead & more")
    report.heading("First")
    report.text("run `a < b` now")
    report.preformatted("x <y>")
    report.write(tmp_path / "report.html")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    page = Outline((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert page.texts("title") == page.texts("h1") == ["A < B"]
    assert page.texts("p") == ["lead & more", "run  now"]
    assert page.texts("code") == ["a < b"]
    assert page.texts("pre") == ["x <y>"]
    order = [tag for tag, _, _ in page.elements if tag in ("h1", "h2", "p", "pre")]
    assert order == ["h1", "p", "h2", "p", "pre"]


def test_a_table_marks_the_best_cell_of_each_row():
    report = Report("t", "l")
    report.table(("a", "b"), [("1", "2"), ("3", "4"), ("5", "6")], caption="c", best=[1, 0, -1])
    page = Outline(report.html())
    assert page.texts("th") == ["a", "b"]
    cells = [(text, attributes.get("class")) for tag, attributes, text in page.elements if tag == "td"]
    assert cells == [("1", None), ("2", "best"), ("3", "best"), ("4", None), ("5", None), ("6", None)]
    assert page.texts("caption") == ["c"]


def test_a_figure_is_drawn_into_the_page_with_its_text():
    axes = plots.curves([1, 2], {"some curve": [3.0, 4.0]}, ylabel="error of it")
    report = Report("t", "l")
    report.figure(axes, "what it shows", alt="rises from 3 to 4")
    page = report.html()
    assert "what it shows" in page
    for words in ("<svg", ">some curve<", ">error of it<"):
        assert words in page
    assert "<image" not in page
    (image,) = (attributes for tag, attributes, _ in Outline(page).elements if tag == "svg")
    assert (image["role"], image["aria-label"]) == ("img", "rises from 3 to 4")
    first, second = (re.sub("p[0-9a-f]{10}", "clip", plots.svg(drawn)) for drawn in (axes, axes.get_figure()))
    assert first == second  # but for clip paths, which old matplotlib numbers by address


def test_markdown_is_rendered_and_html_in_it_is_not():
    report = Report("t", "l")
    report.markdown("# Top\n\n## Next\n\n**bold** `a < b` <script>x</script>\n\n- one\n- [two](javascript:alert)\n")
    page = Outline(report.html())
    assert page.texts("h3") == ["Top"]
    assert page.texts("h4") == ["Next"]
    assert page.texts("strong") == ["bold"]
    assert page.texts("code") == ["a < b"]
    assert [text.strip() for text in page.texts("li")] == ["one", "[two](javascript:alert)"]
    assert {"script", "a"}.isdisjoint(tag for tag, _, _ in page.elements)


def test_a_folded_part_is_there_to_be_opened():
    report = Report("t", "l")
    report.table(["a"], [["1"]])
    report.details("the figures")
    page = Outline(report.html())
    assert page.texts("summary") == ["the figures"]
    assert [tag for tag, _, _ in page.elements if tag in ("details", "table")] == ["details", "table"]


def test_every_colour_of_a_page_has_a_dark_one():
    light, dark = (
        dict(re.findall(r"(--\w+): (#\w{6})", block)) for block in re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL)
    )
    assert light.keys() == dark.keys()
    rest = re.sub(r":root \{.*?\}", "", STYLE, flags=re.DOTALL)
    assert not re.search(r"#[0-9a-f]{3}", rest)
    assert set(re.findall(r"var\((--\w+)\)", rest)) == light.keys()
    for scheme in (light, dark):
        for ink in ("--ink", "--soft", "--quiet", "--best"):
            for paper in ("--page", "--card"):
                assert contrast(scheme[ink], scheme[paper]) > 4.5
