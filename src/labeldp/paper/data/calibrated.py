"""Calibrated priors of the Criteo and census labels: what can be known of their distributions without the files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

import numpy as np

from labeldp.domain import Domain
from labeldp.errors import InvalidInput

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from labeldp.priors import Prior

CRITEO_TRAIN_ROWS = 1_386_176
"""Training labels in the paper: 80 % of the conversions. Its prior costs ε₁ = √(401 / this)."""

CRITEO_CLIP = 400.0
"""The paper clips sale amounts at 400 euros."""

CENSUS_TRAIN_ROWS = 40_466_154
"""Training labels in the paper: 80 % of the persons who worked. Its prior costs ε₁ = √(53 / this)."""


def criteo_prior() -> Prior:
    """The distribution of Criteo sale amounts on 0, 1 … 400 euros, clipped at 400.

    It was not read off the data set: it was fitted so that the clipped Laplace mechanism and RR-on-Bins give all
    24 mechanism errors of the paper's Criteo table within 0.04 %. Its mass at 400 came out at 4.9 %, where the paper
    says 5 %.
    """
    from labeldp.priors import Prior

    return Prior(*criteo_masses())


def census_prior() -> Prior:
    """The distribution of weeks worked, on 1, 2 … 52: the paper drops persons who did not work.

    It was not read off the census: it was fitted so that RR-on-Bins and RRWithPrior give all ten mechanism errors of the
    paper's census table within 0.07 %. Its mass at 52, the whole year, came out at 54.6 %.
    """
    from labeldp.priors.prior import Prior

    return Prior(*_masses("census_prior.csv"))


@dataclass(frozen=True)
class Calibrated:
    """A distribution of labels that comes with labeldp, and what its experiment fixes in public.

    `domain` is the label range of the experiment (it may be wider than the prior's values), `train_rows` the number of
    training labels in the paper.
    """

    prior: Callable[[], Prior]
    domain: Domain
    train_rows: int


CALIBRATED: Mapping[str, Calibrated] = {
    "criteo": Calibrated(criteo_prior, Domain(0, CRITEO_CLIP, cells=401), CRITEO_TRAIN_ROWS),
    "census": Calibrated(census_prior, Domain.integers(0, 52), CENSUS_TRAIN_ROWS),
}
"""By the name of the experiment. Whatever lists or looks up these distributions reads them here."""


def get_calibrated(name: str) -> Calibrated:
    """The entry of `CALIBRATED`; an unknown name is refused with the known ones."""
    if name not in CALIBRATED:
        close = get_close_matches(name.lower(), CALIBRATED, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        known = " and ".join(CALIBRATED)
        raise InvalidInput(f"unknown dataset {name!r}: labeldp carries the distributions of {known}.{hint}")
    return CALIBRATED[name]


def criteo_masses() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The values and masses of `criteo_prior()` as read-only arrays; the masses sum to one."""
    return _masses("criteo_prior.csv")


@cache
def _masses(name: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    text = files(__package__).joinpath(name).read_text(encoding="utf-8")
    table = np.array([line.split(",") for line in text.split()], dtype=np.float64)
    values, masses = table[:, 0].copy(), table[:, 1] / table[:, 1].sum()
    values.flags.writeable = masses.flags.writeable = False
    return values, masses
