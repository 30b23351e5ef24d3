"""The figures show the numbers that they are made of."""

from __future__ import annotations

import math

import pytest

from labeldp.mechanisms import alternatives
from labeldp.paper.experiments import figures as report
from labeldp.paper.experiments import get_task
from labeldp.paper.experiments.reproduction import Measured
from labeldp.paper.experiments.tasks import NOT_PRIVATE, get_method

CRITEO, APP_ADS = get_task("criteo"), get_task("app-ads")
EXACT = {(name, e): Measured(1000 / e + place) for place, name in enumerate(CRITEO.methods) for e in (0.5, 2.0, 8.0)}
TESTED = {
    (NOT_PRIVATE, math.inf): Measured(4000.0),
    ("rr-on-bins", 0.5): Measured(9000.0, 50.0, 3),
    ("rr-on-bins", 2.0): Measured(7000.0, 40.0, 3),
    ("auto", 0.5): Measured(6000.0, 30.0, 3),
}


def curves(axes):
    """The measured curves by label: x and y of each."""
    return {bar.get_label(): [list(data) for data in bar[0].get_data()] for bar in axes.containers}


def marks(axes):
    """The lines that are no measured curve, by label: x and y of each."""
    measured = {bar[0] for bar in axes.containers}
    lines = (line for line in axes.lines if line not in measured and not str(line.get_label()).startswith("_"))
    return {line.get_label(): [list(data) for data in line.get_data()] for line in lines}


def test_exact_figures_alone_give_one_panel_with_a_curve_for_each_mechanism_of_the_paper():
    (axes,) = report.draw(CRITEO, CRITEO.calibrated, EXACT, {})["figure-mechanisms"].axes
    assert axes.get_title() == "Mechanism"
    assert (axes.get_xlabel(), axes.get_ylabel()) == (
        "ε (privacy budget, log scale)",
        "mean squared error",
    )
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert curves(axes) == {
        get_method(name).title: [[0.5, 2.0, 8.0], [EXACT[name, e].mean for e in (0.5, 2.0, 8.0)]]
        for name in ("rr-on-bins", *CRITEO.baselines)
    }
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0.5", "2", "8"]


def test_published_figures_are_hollow_marks_where_the_paper_has_them():
    (axes,) = report.draw(CRITEO, CRITEO.calibrated, EXACT, {})["figure-mechanisms"].axes
    published = CRITEO.published
    assert marks(axes) == {
        f"{get_method(name).title}, published": [
            [0.5, 2.0, 8.0],
            [published["mechanism", name, e][0] for e in (0.5, 2.0, 8.0)],
        ]
        for name in ("rr-on-bins", "laplace")
    }


def test_trained_figures_get_a_second_panel_with_bars_and_the_error_without_privacy():
    drawn = report.draw(CRITEO, CRITEO.calibrated, EXACT, TESTED)
    left, right = drawn["figure-mechanisms"].axes
    assert (left.get_title(), right.get_title()) == ("Mechanism", "Generalization")
    assert curves(right) == {"RR-on-Bins": [[0.5, 2.0], [9000.0, 7000.0]]}
    (bars,) = right.containers[0][2]
    assert [[low[1], high[1]] for low, high in bars.get_segments()] == [[8950.0, 9050.0], [6960.0, 7040.0]]
    assert marks(right)["not private"][1] == [4000.0, 4000.0]
    (ours,) = drawn["figure-ours"].axes
    assert curves(ours).keys() == {"RR-on-Bins", get_method("auto").title}


def test_the_clipping_figure_has_each_float_mechanism_with_and_without_clipping():
    (axes,) = report.draw(CRITEO, CRITEO.calibrated, EXACT, {})["figure-clipping"].axes
    names = ("rr-on-bins", *CRITEO.baselines, "laplace-unclipped", "staircase-unclipped")
    assert curves(axes).keys() == {get_method(name).title for name in names}
    style = {bar.get_label(): bar[0].get_linestyle() for bar in axes.containers}
    assert (style["Laplace"], style["Laplace, not clipped"]) == ("-", "--")


def test_the_joint_figure_names_mechanism_budget_and_error():
    assert CRITEO.calibrated is not None
    drawn = report.joint(CRITEO, CRITEO.calibrated)
    expected = [
        f"{get_method(name).title}, ε = 3 in all\nMSE "
        f"{get_method(name).expected_loss(CRITEO.calibrated.prior, CRITEO.domain, 3.0, CRITEO.calibrated.records):,.1f}"
        for name in ("rr-on-bins", "laplace")
    ]
    assert [axes.get_title() for axes in drawn.axes] == expected
    for axes in drawn.axes:
        assert (axes.get_xlabel(), axes.get_ylabel()) == ("true label", "private label")
        assert axes.get_xlim() == pytest.approx(axes.get_ylim(), abs=2)


def test_no_two_curves_have_one_colour_and_one_legend_below_names_them_all():
    for name, drawn in report.draw(CRITEO, CRITEO.calibrated, EXACT, TESTED).items():
        if name == "figure-joint":
            continue
        drawn.draw_without_rendering()
        for axes in drawn.axes:
            colours = [bar[0].get_color() for bar in axes.containers]
            assert len(set(colours)) == len(colours)
        (legend,) = (axes.get_legend() for axes in drawn.axes if axes.get_legend())
        named = [text.get_text() for text in legend.get_texts()]
        assert sorted(named) == sorted({label for axes in drawn.axes for label in (*curves(axes), *marks(axes))})
        assert legend.get_window_extent().y1 < min(axes.get_window_extent().y0 for axes in drawn.axes)


def test_the_parts_of_an_error_add_up_to_what_is_predicted():
    choices = alternatives(CRITEO.calibrated.prior, 1, 10_000, domain=CRITEO.domain)
    names = {choice.name: f"<{choice.name}>" for choice in choices}
    axes = report.error_parts(choices, names=names, title="t")
    ends = {}
    for bar in axes.containers:
        (patch,) = bar.patches
        place = round(patch.get_y() + patch.get_height() / 2)
        ends[place] = max(ends.get(place, 0), patch.get_x() + patch.get_width())
    for choice, place in zip(choices, sorted(ends, reverse=True), strict=True):
        assert ends[place] == pytest.approx(choice.predicted_error)
    assert [label.get_text() for label in axes.get_yticklabels()] == list(names.values())


def test_relative_losses_may_be_below_zero():
    tested = {("rr-on-bins", 2.0): Measured(-0.002), ("rr-on-bins", 8.0): Measured(0.1)}
    (axes,) = report.panels({}, tested, ("rr-on-bins",), APP_ADS).axes
    assert axes.get_ylabel() == "relative Poisson loss"
    assert axes.get_yscale() == "symlog"
    assert curves(axes) == {"RR-on-Bins": [[2.0, 8.0], [-0.002, 0.1]]}
