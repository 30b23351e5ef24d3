"""Files that a user gives to the page: a distribution as CSV, or the mechanism.json of a message. Errors name the file and the problem."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from labeldp.artifact import Message
from labeldp.artifact.description import total_epsilon
from labeldp.domain import Domain
from labeldp.errors import InvalidInput
from labeldp.evaluate.shapes import shaped_prior
from labeldp.json_text import read_text
from labeldp.mechanisms.finite import FiniteMechanism
from labeldp.priors import Prior

MEGABYTES = 16
"""The largest file that the page takes."""
MOST_VALUES = 100_000
"""The most values of a distribution that the page takes."""


@dataclass(frozen=True)
class Known:
    """What a file tells about labels in general.

    Attributes
    ----------
    name : str
        What the user calls the file.
    prior : Prior
        The distribution of the labels.
    domain : Domain
        The bounds of the mechanism, or the range of the distribution.
    mechanism : FiniteMechanism or None
        The mechanism, if the file contains one.
    records : int or None
        The number of records, if the file tells.
    epsilon : float or None
        The total cost of each label, if the file is a message.
    uniform : bool
        Whether the file lacks a distribution, so that labels are assumed to be uniform between its bounds.
    """

    name: str
    prior: Prior
    domain: Domain
    mechanism: FiniteMechanism | None = None
    records: int | None = None
    epsilon: float | None = None
    uniform: bool = False

    @property
    def public(self) -> bool:
        """Whether the distribution cost nothing, so that a release may take it as public."""
        return self.prior.epsilon_exact == 0


def read_upload(name: str, content: bytes) -> Known:
    """Return the content of an uploaded file.

    Raises
    ------
    InvalidInput
        If it is neither a distribution nor a mechanism. The text is for the user and names the file.
    """
    if not content:
        raise InvalidInput(f"{name} is empty")
    if len(content) > MEGABYTES << 20:
        raise InvalidInput(f"{name} has more than {MEGABYTES} MB, which is more than this page takes")
    if name.lower().endswith(".json"):
        return _from_mechanism(name, _decoded(name, content))
    return _from_csv(name, content)


def read_path(path: str | os.PathLike[str]) -> Known:
    """Return the content of a file on this machine: a CSV file, a mechanism.json or the folder of a message."""
    place = Path(path)
    if place.is_dir():
        message = Message.open(place)
        return _known(place.name, message.mechanism, message.records)
    if place.suffix.lower() == ".json":
        return _from_mechanism(place.name, read_text(place))
    return _from_prior(place.name, Prior.from_csv(place))


def _decoded(name: str, content: bytes) -> str:
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidInput(f"{name} is not UTF-8 text, so it is not a mechanism.json") from None
    if text.startswith("\ufeff"):
        raise InvalidInput(
            f"{name} begins with a byte order mark, which JSON does not have: save it as UTF-8 without BOM"
        )
    return text


def _from_csv(name: str, content: bytes) -> Known:
    _check_size(name, max(content.count(b"\n"), content.count(b"\r")) - 1)  # before minutes are spent on reading them
    first = content.splitlines()[0].decode("utf-8", "replace").lower()
    for delimiter, words in ((";", "semicolons"), ("\t", "tabs")):
        if {"value", "mass"} <= {part.strip(' "\ufeff') for part in first.split(delimiter)}:
            raise InvalidInput(
                f"{name} separates its columns by {words}: separate them by commas, with a point for decimals"
            )
    with TemporaryDirectory() as folder:
        copy = Path(folder) / "prior.csv"
        copy.write_bytes(content)
        try:
            prior = Prior.from_csv(copy)
        except InvalidInput as error:
            raise InvalidInput(str(error).replace(str(copy), name)) from None
    return _from_prior(name, prior)


def _from_prior(name: str, prior: Prior) -> Known:
    _check_size(name, len(prior))
    return Known(name, prior, _range_of(name, prior))


def _from_mechanism(name: str, text: str) -> Known:
    try:
        mechanism = FiniteMechanism.from_json(text)
    except InvalidInput as error:
        raise InvalidInput(f"{name}: {error}") from None
    return _known(name, mechanism, None)


def _known(name: str, mechanism: FiniteMechanism, records: int | None) -> Known:
    prior = mechanism.prior
    uniform = prior is None
    if prior is None:
        if mechanism.domain is None:
            raise InvalidInput(f"{name} has neither a distribution nor bounds: choose a shape instead")
        prior = shaped_prior("uniform", mechanism.domain)
    _check_size(name, len(prior))
    counted = None if prior.counts is None else prior.counts.records
    return Known(
        name=name,
        prior=prior,
        domain=mechanism.domain or _range_of(name, prior),
        mechanism=mechanism,
        records=records or counted,
        epsilon=float(total_epsilon(mechanism)),
        uniform=uniform,
    )


def _check_size(name: str, values: int) -> None:
    if values > MOST_VALUES:
        raise InvalidInput(f"{name} has {values:,} values, and this page takes up to {MOST_VALUES:,}: merge neighbours")


def _range_of(name: str, prior: Prior) -> Domain:
    """Return the range of a distribution, as whole numbers if all its values are."""
    if len(prior) < 2:
        raise InvalidInput(f"{name}: a distribution needs at least two values: with one, all labels are the same")
    values = prior.values
    low, high = float(values[0]), float(values[-1])
    if (values == np.rint(values)).all() and high - low < MOST_VALUES:
        return Domain.integers(int(low), int(high))
    return Domain(low, high)
