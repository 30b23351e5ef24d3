"""Plots judged by what they show: lines, labels, numbers."""

from __future__ import annotations

import re
from itertools import pairwise
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.text import Text

from labeldp import Domain, Prior, plots
from labeldp.errors import InvalidInput
from labeldp.mechanisms import MECHANISMS, Laplace, Request, RROnBins
from labeldp.mechanisms.registry import SHARED_COLOUR
from labeldp.plots.axes import DARK
from labeldp.plots.pictures import joint_mass

PRIOR = Prior(np.arange(11.0), np.arange(11, 0, -1))
DOMAIN = Domain.integers(0, 10)


def texts(axes):
    return [text.get_text() for text in axes.texts]


def test_bins_show_outputs_borders_and_prior():
    mechanism = RROnBins.optimal(PRIOR, 2, domain=DOMAIN)
    axes = mechanism.plot()
    outputs, borders = (
        sorted(segment[0][0] for segment in lines.get_segments())
        for lines in axes.collections
        if lines.get_label() != "prior of the labels"
    )
    np.testing.assert_allclose(outputs, mechanism.outputs)
    np.testing.assert_allclose(borders, mechanism.encoder.thresholds)
    assert texts(axes) == [f"{output:.4g}" for output in mechanism.outputs]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == [
        "prior of the labels",
        "outputs (height: how often)",
        "borders of bins",
    ]
    assert axes.get_title() == f"RROnBins, ε = 2: {mechanism.outputs.size} outputs"


def test_outputs_are_as_tall_as_they_are_often_and_have_the_mechanism_s_colour():
    for name in ("rr-on-bins", "unbiased"):
        mechanism = MECHANISMS[name].make(Request(DOMAIN, 1, "squared", PRIOR, 1000))
        (lines,) = (found for found in mechanism.plot().collections if "outputs" in found.get_label())
        heights = {float(segment[0][0]): segment[1][1] for segment in lines.get_segments()}
        chances = PRIOR.masses @ mechanism.matrix(PRIOR.values)
        expected = dict(zip(mechanism.outputs.tolist(), 0.97 * chances / chances.max(), strict=True))
        assert heights == pytest.approx(expected)
        assert to_hex(lines.get_color()[0]) == MECHANISMS[name].colour


def test_numbers_at_outputs_do_not_run_into_each_other():
    axes = plots.bins(np.array([0.0, 1, 2, 50, 99, 100]), np.empty(0))
    axes.figure.draw_without_rendering()
    boxes = sorted((text.get_window_extent() for text in axes.texts), key=lambda box: box.x0)
    assert len(boxes) >= 3
    assert all(left.x1 < right.x0 for left, right in pairwise(boxes))


def test_the_joint_density_puts_the_mass_where_the_mechanism_does():
    labels, outputs = (np.array([1.0, 9.0]), np.array([0.25, 0.75])), np.array([[1.0, 9.0], [1.0, 9.0]])
    edges = np.linspace(0, 10, 11)
    mass = joint_mass(labels, outputs, np.array([[0.9, 0.1], [0.2, 0.8]]), edges, edges)
    assert mass[1, 1] == pytest.approx(0.225)
    assert mass[9, 9] == pytest.approx(0.6)
    assert mass[9, 1] == pytest.approx(0.15)
    assert mass.sum() == pytest.approx(1)


@pytest.mark.parametrize("name", MECHANISMS.names)
def test_every_mechanism_draws_its_joint_density(name):
    mechanism = MECHANISMS[name].make(Request(DOMAIN, 1, "squared", PRIOR, 1000))
    axes = mechanism.plot(PRIOR, view="joint")
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("true label", "private label")
    assert f"MSE {mechanism.expected_loss(PRIOR):,.1f}" in axes.get_title()
    assert axes.get_xlim() == pytest.approx((0, 10), abs=0.5)
    assert len(axes.collections[0].get_paths()) > 3


def test_a_float_mechanism_has_no_bins_and_a_joint_density_needs_a_prior():
    with pytest.raises(InvalidInput, match="view='joint'"):
        Laplace((0, 10), 1).plot(PRIOR)
    with pytest.raises(InvalidInput, match="needs a prior"):
        Laplace((0, 10), 1).plot(view="joint")
    with pytest.raises(InvalidInput, match='"bins" or "joint"'):
        Laplace((0, 10), 1).plot(PRIOR, view="side")


def test_curves_carry_their_names_numbers_and_colours():
    axes = plots.curves(
        [1, 2], {"a": [5, 3], "b": [4, 2]}, published={"a": [5.5, 3.5]}, colours={"b": "#123456"}, dashed=["b"]
    )
    shown = {line.get_label(): line.get_ydata().tolist() for line in axes.lines}
    assert shown == {"a": [5, 3], "a, published": [5.5, 3.5], "b": [4, 2]}
    assert (axes.lines[-1].get_color(), axes.lines[-1].get_linestyle()) == ("#123456", "--")
    assert axes.lines[0].get_color() == axes.lines[1].get_markeredgecolor()


ALL = {name: [9.0 + number, 5.0 + number, 3.0] for number, name in enumerate(MECHANISMS.names)}
ALL_ALIKE = {str(number): [5.0, 3.0] for number in range(13)}
COLOURS = {entry.name: entry.colour for entry in MECHANISMS}
DRAWN = {
    "curves": lambda: plots.curves([0.5, 1, 8], ALL, published={"auto": [1, 2, 3]}, colours=COLOURS),
    "few curves": lambda: plots.curves([0.5, 8], {"a": [5, 3], "b": [3, 5]}),
    "bins": lambda: RROnBins.optimal(PRIOR, 2, domain=DOMAIN).plot(),
    "parts": lambda: plots.error_parts(["a", "a long name of it"], [4, 4], [3, 0.1], [0.5, 2], title="t"),
    "means": lambda: plots.mean_values(np.arange(11.0), {"a": np.full(11, 5.0), "b": np.arange(11.0)}),
}


@pytest.fixture(scope="module", params=DRAWN)
def drawn(request):
    axes = DRAWN[request.param]()
    axes.figure.draw_without_rendering()
    return axes


def test_the_legend_is_below_the_plot_and_on_the_picture(drawn):
    legend = drawn.get_legend().get_window_extent()
    assert legend.y1 < drawn.xaxis.get_tightbbox().y0
    whole = drawn.figure.bbox
    assert whole.x0 <= legend.x0 < legend.x1 <= whole.x1
    assert whole.y0 <= legend.y0


def test_a_legend_names_nothing_of_other_axes():
    figure = plots.new_figure()
    left, right = figure.subplots(1, 2)
    left.plot([1, 2], [1, 2], label="somebody else's")
    plots.curves([1, 2], {"a": [5, 3]}, ax=right)
    assert [text.get_text() for text in right.get_legend().get_texts()] == ["a"]
    plots.legend_below(right, others=[left])
    assert [text.get_text() for text in right.get_legend().get_texts()] == ["somebody else's", "a"]


def test_every_text_can_be_read_at_400_pixels(drawn):
    shrunk = 400 / (drawn.figure.get_figwidth() * 72)  # pixels a point
    shown = [text for text in drawn.figure.findobj(Text) if text.get_visible() and text.get_text().strip()]
    assert len(shown) > 8
    assert min(text.get_fontsize() for text in shown) * shrunk > 9


def test_numbers_on_an_axis_do_not_run_into_each_other(drawn):
    for axis, near, far in ((drawn.xaxis, "x0", "x1"), (drawn.yaxis, "y0", "y1")):
        boxes = [label.get_window_extent() for label in axis.get_ticklabels() if label.get_text()]
        boxes = sorted((box for box in boxes if box.width), key=lambda box: getattr(box, near))
        assert all(getattr(first, far) < getattr(second, near) for first, second in pairwise(boxes))


def test_no_two_lines_look_alike_whatever_colours_one_sees():
    axes = DRAWN["curves"]()
    lines = [line for line in axes.lines if not line.get_label().endswith("published")]
    assert len({(line.get_color(), line.get_marker()) for line in lines}) == len(ALL)
    shared = plots.curves([1, 2], ALL_ALIKE, colours=dict.fromkeys(ALL_ALIKE, SHARED_COLOUR))
    assert len({line.get_marker() for line in shared.lines}) == len(ALL_ALIKE)


def test_ticks_of_many_budgets_leave_room():
    budgets = np.geomspace(0.05, 8, 40)
    axes = plots.curves(budgets, {"a": budgets})
    axes.figure.draw_without_rendering()
    boxes = [label.get_window_extent() for label in axes.get_xticklabels()]
    assert len(boxes) > 5
    assert all(left.x1 < right.x0 for left, right in pairwise(boxes))


def test_a_plot_says_in_words_what_it_shows():
    axes = plots.curves([0.5, 8], {"a": [5000, 3], "b": [7, 7]}, ylabel="error", title="top")
    axis = "ε (privacy budget, log scale)"
    assert plots.in_words(axes) == f"top, error against {axis}: a from 5,000 at 0.5 to 3 at 8; b 7."
    bars = plots.error_parts(["a", "b"], [4000, 4000], [3, 0], [0.5, 2], xlabel="error", title="top")
    expected = "Bars, top, error. a: floor 4,000, bias 3, noise 0.5; b: floor 4,000, bias 0, noise 2."
    assert plots.in_words(bars) == expected


def test_files_carry_the_words(tmp_path):
    axes = plots.curves([1, 2], {"a": [5, 3]})
    plots.save(axes, tmp_path / "a.svg", alt='a "falls" & stops')
    plots.save(axes, tmp_path / "a.png", alt="a falls")
    image = ET.parse(tmp_path / "a.svg").getroot()
    assert (image.get("role"), image.get("aria-label")) == ("img", 'a "falls" & stops')
    assert b"a falls" in (tmp_path / "a.png").read_bytes()[:200]


def test_an_svg_has_a_dark_version_of_all_but_the_lines():
    text = plots.svg(plots.curves([1, 2], {"a": [5, 3]}, colours={"a": "#123456"}), alt="a")
    rules = re.search(r"prefers-color-scheme: dark\) \{(.*)\}</style>", text)[1]
    drawn = set(re.findall(r"(?:fill|stroke): (#\w+)", text.replace(rules, "")))
    assert drawn <= {*DARK, "#123456"}
    assert "#123456" in drawn
    for light in drawn - {"#123456"}:
        assert f'[style*="fill: {light}"]{{fill:{DARK[light]}!important}}' in rules
    assert not re.search(r"<text(?! [^>]*fill: )[^>]*>", text)


def test_the_same_figure_is_the_same_file(tmp_path):
    files = [tmp_path / f"{number}.svg" for number in (1, 2)]
    for file in files:
        plots.save(plots.curves([1, 2], {"a": [5, 3]}), file)
    # but for clip paths, which old matplotlib numbers by address
    first, second = (re.sub("p[0-9a-f]{10}", "clip", file.read_text(encoding="utf-8")) for file in files)
    assert "<svg" in first
    assert first == second
