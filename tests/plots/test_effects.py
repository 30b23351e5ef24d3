"""Effects of columns as they are drawn: what the panels show, and that it can be read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import StepPatch
from matplotlib.text import Text

from labeldp import InvalidInput, plots
from labeldp.learn.sums.sums_learner import SumsLearner
from labeldp.plots.axes import DARK, PRIOR
from labeldp.plots.pictures import COLOUR, MOST_CATEGORIES
from labeldp.release.sum_queries import SumQueries

GENERATOR = np.random.default_rng(4)


@dataclass
class Shape:
    name: str
    values: np.ndarray
    errors: np.ndarray
    weights: np.ndarray
    cells: tuple[str, ...]
    positions: np.ndarray | None = None


def numbers(*, missing=False, positions=None):
    count = 20 if positions is None else len(positions)
    cells = count + missing
    return Shape(
        "size",
        np.linspace(-5, 9, cells),
        GENERATOR.uniform(0.1, 1, cells),
        np.full(cells, 1 / cells),
        tuple(map(str, range(cells))),
        np.linspace(0, 1e6, count) if positions is None else np.asarray(positions, float),
    )


def categories(count, words=None):
    weights = np.arange(1.0, count + 1)
    return Shape(
        "a column with a long name",
        GENERATOR.normal(size=count),
        GENERATOR.uniform(0.1, 1, count),
        weights / weights.sum(),
        tuple(words or (f"category {number}" for number in range(count))),
    )


ALL = {
    "numbers": lambda: [numbers()],
    "numbers and missing ones": lambda: [numbers(missing=True)],
    "skewed numbers": lambda: [numbers(positions=np.geomspace(1, 1e7, 30))],
    "one number": lambda: [numbers(positions=[3.0])],
    "two numbers": lambda: [numbers(positions=[0.0, 1.0])],
    "many categories": lambda: [categories(40, ["others", "missing", *map(str, range(38))])],
    "few categories": lambda: [categories(2, ["yes", "no"])],
    "six panels": lambda: [numbers(), categories(12), numbers(missing=True), categories(3), categories(9), numbers()],
    "three panels": lambda: [numbers(), categories(5), numbers()],
    "no effect at all": lambda: [
        Shape("x", np.zeros(3), np.zeros(3), np.array([0.5, 0.5, 0]), ("others", "a", "b")),
    ],
}


@pytest.fixture(scope="module", params=ALL)
def figure(request):
    made = plots.effects(ALL[request.param](), note="not shown: 3 pairs of columns")
    made.draw_without_rendering()
    return made


def test_a_panel_of_numbers_shows_the_curve_its_band_and_the_records():
    shape = numbers()
    (axes,) = plots.effects([shape]).axes
    (line,) = (line for line in axes.lines if line.get_label() == "effect")
    np.testing.assert_allclose(line.get_data(), [shape.positions, shape.values])
    assert line.get_color() == COLOUR
    (band,) = axes.collections
    corners = {(round(float(x), 6), round(float(y), 6)) for x, y in band.get_paths()[0].vertices}
    for side in (-2, 2):
        ends = zip(shape.positions, shape.values + side * shape.errors, strict=True)
        assert {(round(float(x), 6), round(float(y), 6)) for x, y in ends} <= corners
    (records,) = (patch for patch in axes.patches if isinstance(patch, StepPatch))
    assert to_hex(records.get_facecolor()) == PRIOR
    assert axes.get_title() == "size"
    moved = np.sqrt(shape.weights @ shape.values**2)
    assert [text.get_text() for text in axes.texts] == [f"moves ±{moved:.2g}"]


def test_missing_numbers_have_a_point_of_their_own():
    shape = numbers(missing=True)
    (axes,) = plots.effects([shape]).axes
    (line,) = (line for line in axes.lines if line.get_label() == "effect")
    assert len(line.get_xdata()) == len(shape.values) - 1
    (point,) = axes.containers
    assert point.get_label() == "missing"
    assert point.lines[0].get_ydata().tolist() == [shape.values[-1]]
    assert point.lines[0].get_xdata()[0] > shape.positions[-1]
    assert "missing" in [text.get_text() for text in axes.texts]


def test_skewed_numbers_have_a_logarithmic_axis_and_others_do_not():
    skewed, even, negative = ([1, 10, 100, 1e4, 1e6], [1, 2, 3, 4, 5], [-1, 0.1, 1, 2, 1e6])
    scales = [plots.effects([numbers(positions=each)]).axes[0].get_xscale() for each in (skewed, even, negative)]
    assert scales == ["log", "linear", "linear"]


def test_categories_are_the_most_frequent_in_the_order_of_their_effects():
    shape = categories(20, ["others", "missing", *(f"c{number}" for number in range(18))])
    (axes,) = plots.effects([shape]).axes
    words = [text.get_text() for text in axes.get_xticklabels()]
    assert set(words) == {"others", "missing", *(f"c{number}" for number in range(18 - MOST_CATEGORIES, 18))}
    (points,) = axes.containers
    shown = points.lines[0].get_ydata()
    assert shown.tolist() == sorted(shown)
    for word, value in zip(words, shown, strict=True):
        assert shape.values[shape.cells.index(word)] == value
    lengths = [np.ptp(segment[:, 1]) for segment in points.lines[2][0].get_segments()]
    np.testing.assert_allclose(lengths, [4 * shape.errors[shape.cells.index(word)] for word in words])
    assert axes.texts[0].get_text().endswith(f"{MOST_CATEGORIES} of 18")


def test_cells_without_records_are_left_out():
    shape = categories(3, ["others", "a", "b"])
    shape.weights = np.array([0.0, 0.4, 0.6])
    (axes,) = plots.effects([shape]).axes
    assert sorted(text.get_text() for text in axes.get_xticklabels()) == ["a", "b"]


def test_the_legend_and_the_note_are_below_the_panels_and_on_the_picture(figure):
    (legend,) = figure.legends
    box = legend.get_window_extent()
    assert all(box.y1 <= axes.get_tightbbox().y0 + 1 for axes in figure.axes)
    assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1
    assert figure.bbox.y0 <= box.y0
    assert "not shown: 3 pairs of columns" in legend.get_title().get_text()


def test_every_text_can_be_read_at_400_pixels(figure):
    shrunk = 400 / (figure.get_figwidth() * 72)
    shown = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]
    assert len(shown) > 6
    assert min(text.get_fontsize() for text in shown) * shrunk > 8.9


def test_numbers_on_an_axis_do_not_run_into_each_other(figure):
    for axes in figure.axes:
        boxes = [label.get_window_extent() for label in axes.yaxis.get_ticklabels() if label.get_text()]
        assert all(low.y1 < high.y0 for low, high in pairwise(sorted(boxes, key=lambda box: box.y0)))
        labels = [label for label in axes.xaxis.get_ticklabels() if label.get_text() and not label.get_rotation()]
        boxes = sorted((label.get_window_extent() for label in labels), key=lambda box: box.x0)
        assert all(left.x1 < right.x0 for left, right in pairwise(boxes))


def test_every_effect_lies_within_its_panel_above_the_records(figure):
    for axes in figure.axes:
        low, high = axes.get_ylim()
        foot = low + 0.2 * (high - low)
        drawn = [line.get_ydata() for line in axes.lines if not str(line.get_label()).startswith("_")]
        drawn += [container.lines[0].get_ydata() for container in axes.containers]
        assert foot <= np.concatenate(drawn).min()
        assert np.concatenate(drawn).max() <= high


def test_an_effect_much_smaller_than_another_looks_small():
    small = numbers()
    small.values, small.errors = small.values / 1e4, small.errors / 1e4
    _, axes = plots.effects([numbers(), small]).axes
    (line,) = (line for line in axes.lines if line.get_label() == "effect")
    assert np.ptp(line.get_ydata()) < 0.02 * np.ptp(axes.get_ylim())


def test_the_picture_is_said_in_words():
    shape = categories(2, ["yes", "no"])
    shape.values = np.array([3.0, -2.0])
    words = plots.in_words(plots.effects([numbers(missing=True), shape]))
    assert "size: effect from -5 at 0 to 8.3 at 1e+06; missing 9." in words
    assert words.endswith("a column with a long name: effect from -2 at no to 3 at yes.")


def test_an_svg_has_a_dark_version_of_all_but_the_effects():
    text = plots.svg(plots.effects([numbers(missing=True), categories(12)], note="a note"), alt="a")
    rules = re.search(r"prefers-color-scheme: dark\) \{(.*)\}</style>", text)[1]
    drawn = set(re.findall(r"(?:fill|stroke): (#\w+)", text.replace(rules, "")))
    assert drawn == {*DARK, COLOUR}
    assert not re.search(r"<text(?! [^>]*fill: )[^>]*>", text)


@pytest.fixture(scope="module")
def model():
    size, shop = GENERATOR.random(2000), GENERATOR.integers(0, 3, 2000)
    level = GENERATOR.integers(0, 5, 2000)
    table = pa.table({"size": size, "level": level, "shop": [f"shop {code}" for code in shop]})
    return SumsLearner(table).learn(SumQueries(10 * size + 8 * shop + 2 * level, 8, (0, 40)))


def titles(figure):
    return [axes.get_title() for axes in figure.axes]


def test_a_model_draws_the_columns_that_matter_most(model):
    shown = [effect.name for effect in model.shown_effects() if " × " not in effect.name]
    assert titles(model.plot_effects()) == shown
    figure = model.plot_effects(most=2)
    assert titles(figure) == shown[:2]
    assert "1 column of smaller effect" in figure.legends[0].get_title().get_text()


def test_a_model_draws_the_columns_that_are_asked_for(model):
    figure = model.plot_effects(["shop", "size"])
    assert titles(figure) == ["shop", "size"]
    assert "smaller effect" not in figure.legends[0].get_title().get_text()
    assert titles(model.plot_effects("level")) == ["level"]
    pairs = f"{len(model.pairs)} pair"
    assert pairs in figure.legends[0].get_title().get_text()


def test_a_column_s_numbers_are_those_of_the_model(model):
    (axes,) = model.plot_effects("size").axes
    (line,) = (line for line in axes.lines if line.get_label() == "effect")
    (effect,) = (effect for effect in model.shown_effects() if effect.name == "size")
    np.testing.assert_allclose(line.get_ydata(), effect.values)


def test_what_cannot_be_drawn_is_refused(model):
    with pytest.raises(
        InvalidInput, match=r"no column 'sice' \(did you mean 'size'\?\): choose from size, level, shop"
    ):
        model.plot_effects(["shop", "sice"])
    with pytest.raises(InvalidInput, match="no column to draw"):
        model.plot_effects([])
    with pytest.raises(InvalidInput, match="no column 7: choose from"):
        model.plot_effects(7)
    for most in (0, True, 2.5, "3"):
        with pytest.raises(InvalidInput, match="most must be a whole number"):
            model.plot_effects(most=most)
