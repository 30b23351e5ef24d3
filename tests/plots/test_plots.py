"""Plots judged by what they show: lines, labels, numbers."""

from __future__ import annotations

import re

import numpy as np
import pytest

from labeldp import Domain, Laplace, Prior, RROnBins, plots
from labeldp.errors import InvalidInput
from labeldp.mechanisms import MECHANISMS, Request

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
        if lines.get_label() != "prior"
    )
    np.testing.assert_allclose(outputs, mechanism.outputs)
    np.testing.assert_allclose(borders, mechanism.encoder.thresholds)
    assert texts(axes) == [f"{output:.4g}" for output in mechanism.outputs]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["prior", "outputs", "bin borders"]
    assert axes.get_title() == f"RROnBins, ε = 2: {mechanism.outputs.size} outputs"


def test_the_joint_density_puts_the_mass_where_the_mechanism_does():
    labels, outputs = (np.array([1.0, 9.0]), np.array([0.25, 0.75])), np.array([[1.0, 9.0], [1.0, 9.0]])
    edges = np.linspace(0, 10, 11)
    mass = plots.densities._joint_mass(labels, outputs, np.array([[0.9, 0.1], [0.2, 0.8]]), edges)
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


def test_the_same_figure_is_the_same_file(tmp_path):
    files = [tmp_path / f"{number}.svg" for number in (1, 2)]
    for file in files:
        plots.save(plots.curves([1, 2], {"a": [5, 3]}), file)
    # but for clip paths, which old matplotlib numbers by address
    first, second = (re.sub("p[0-9a-f]{10}", "clip", file.read_text(encoding="utf-8")) for file in files)
    assert "<svg" in first
    assert first == second
