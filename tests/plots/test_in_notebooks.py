"""A cell of a notebook that ends with a plot shows it: IPython asks the object for a picture."""

from __future__ import annotations

import struct

import pytest

from labeldp import Domain, Prior, plots
from labeldp.mechanisms import RROnBins

MECHANISM = RROnBins.optimal(Prior.uniform(Domain.integers(0, 10)), 2)


def size(picture):
    """The width and height that a PNG file has in pixels."""
    assert picture.startswith(b"\x89PNG\r\n\x1a\n")
    return struct.unpack(">II", picture[16:24])


@pytest.mark.parametrize(
    "drawn", [MECHANISM.plot(), plots.new_figure(4, 3)], ids=["axes of a mechanism", "a figure of any content"]
)
def test_axes_and_figures_are_shown_twice_as_sharp_as_they_are_large(drawn):
    picture, page = drawn._repr_png_()
    figure = drawn if hasattr(drawn, "savefig") else drawn.figure
    assert (page["width"], page["height"]) == pytest.approx(figure.get_size_inches() * 100, abs=1)
    assert size(picture)[0] > 1.5 * page["width"]


def test_the_picture_has_its_words():
    _, page = MECHANISM.plot(view="joint")._repr_png_()
    assert page["alt"] == plots.in_words(MECHANISM.plot(view="joint"))


def test_what_a_user_adds_is_shown_without_words():
    axes = MECHANISM.plot()
    axes.bar([1, 2], [0.1, 0.2])  # two bars in one, which no plot of ours has
    picture, page = axes._repr_png_()
    assert size(picture)
    assert "alt" not in page


def test_pyplot_does_not_know_them():
    """Else a program that draws many would keep all of them."""
    import matplotlib.pyplot as plt

    before = plt.get_fignums()
    MECHANISM.plot()._repr_png_()
    assert plt.get_fignums() == before
