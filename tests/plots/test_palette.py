"""All colours of mechanisms can be told apart, also by people who do not see all colours, on light and on dark pages."""

from __future__ import annotations

from itertools import combinations

import pytest
from palette import VIEWS, contrast, distance

from labeldp.mechanisms import MECHANISMS
from labeldp.mechanisms.registry import SHARED_COLOUR
from labeldp.paper.experiments.tasks import VARIANTS
from labeldp.plots.axes import DARK, INK, PAPER, QUIET

COLOURS = {entry.name: entry.colour for entry in MECHANISMS}
COLOURS |= {variant.name: variant.colour for variant in VARIANTS.values()}
COLOURS |= {"not private": QUIET, "a new mechanism": SHARED_COLOUR}
APART = {"normal": 0.09, "protanopia": 0.055, "deuteranopia": 0.055, "tritanopia": 0.04}


def test_the_measures_agree_with_known_figures():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)  # the example of WCAG's authors
    assert distance("#000000", "#ffffff", "normal") == pytest.approx(1, abs=1e-3)
    assert distance("#ff0000", "#00ff00", "normal") > 2 * distance("#c00000", "#606000", "protanopia")


def test_only_the_shared_colour_has_several_owners():
    own = [colour for colour in COLOURS.values() if colour != SHARED_COLOUR]
    assert len(own) == len(set(own))


@pytest.mark.parametrize("view", VIEWS)
def test_no_two_colours_look_alike(view):
    different = {colour: name for name, colour in COLOURS.items()}.values()
    pairs = {(a, b): distance(COLOURS[a], COLOURS[b], view) for a, b in combinations(different, 2)}
    nearest = min(pairs, key=pairs.get)
    assert pairs[nearest] > APART[view], f"{nearest}: {pairs[nearest]:.3f}"


@pytest.mark.parametrize("name", COLOURS)
def test_every_colour_stands_out_from_light_and_dark_paper(name):
    assert contrast(COLOURS[name], PAPER) > 2.5
    assert contrast(COLOURS[name], DARK[PAPER]) > 2.5


def test_text_can_be_read_on_both():
    for ink in (INK, QUIET):
        assert contrast(ink, PAPER) > 4.5
        assert contrast(DARK[ink], DARK[PAPER]) > 4.5
