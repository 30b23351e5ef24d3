"""`mechanism.json`: the public description of a message, its mechanism and its release."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path

from labeldp.artifact.manifest import RELEASE_ID, exact_text, installed_version
from labeldp.budget import decimal_text
from labeldp.errors import InvalidInput, PrivacyRefused
from labeldp.json_text import parse_json, read_record, read_text
from labeldp.mechanisms import FiniteMechanism


@dataclass(frozen=True)
class PersonUnit:
    """The person as the unit of privacy of a message.

    Attributes
    ----------
    column : str
        The name of the column of persons in the input.
    kind : str
        The type of the persons: "int" or "str".
    entries : int
        The maximum number of labels of a person in the message, or in all messages that share the persons.
    shared : tuple of str
        The label columns of all messages that share the persons; empty if there is only this one.
    """

    column: str
    kind: str
    entries: int
    shared: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.entries < 1:
            raise InvalidInput("the number of labels of a person is damaged")


@dataclass(frozen=True)
class Header:
    """The release in `mechanism.json`, next to the mechanism.

    Attributes
    ----------
    release : str
        The release's id: 32 hexadecimal digits.
    id_column : str
        The name of the id column.
    id_type : str
        The type of the ids: "int" or "str".
    keep_order : bool
        Whether the rows are in the order of the input.
    keyed : bool
        Whether the labels party kept the key, so that later batches are possible.
    row_numbers : bool
        Whether the ids are the row numbers of the input, and so show its order.
    label_column : str
        The name of the label column, so that `train` can detect a feature that is the label itself. The labels party
        gave it; it reveals nothing about any label.
    persons : PersonUnit or None
        The unit of privacy; None if it is a record.
    dataset : str or None
        The dataset that was charged in the labels party's ledger, for the card.
    date : str or None
        The date of the release (UTC), for the card.
    """

    release: str
    id_column: str
    id_type: str
    keep_order: bool
    keyed: bool
    row_numbers: bool
    label_column: str
    persons: PersonUnit | None = None
    dataset: str | None = None
    date: str | None = None

    @property
    def entries(self) -> int:
        """The maximum number of labels per unit of privacy: 1 for records, or the limit per person."""
        return 1 if self.persons is None else self.persons.entries

    def __post_init__(self) -> None:
        if not RELEASE_ID.fullmatch(self.release):
            raise InvalidInput("the release's id is damaged")


def describe(mechanism: FiniteMechanism, header: Header) -> str:
    """Return the text of `mechanism.json`."""
    record = mechanism.to_record() | {
        "message": asdict(header),
        "adjacency": "replace one label" if header.persons is None else "replace all labels of one person",
        **epsilon_parts(mechanism, header.entries),
        "labeldp_version": installed_version(),
    }
    return json.dumps(record, indent=1, ensure_ascii=False) + "\n"


def read_description(file: Path) -> tuple[FiniteMechanism, Header]:
    """Read the text that `describe` wrote. The mechanism is proven again, and the parts of ε must add up."""
    text = read_text(file)
    try:
        record = parse_json(text, "the description")
        mechanism = FiniteMechanism.from_description(record)
        if "message" not in record:
            raise InvalidInput("it describes a mechanism but no release. Give the folder that labeldp privatize wrote")
    except InvalidInput as error:
        raise InvalidInput(f"{file}: {error}") from error
    try:
        header = read_record(Header, record["message"], "the release")
    except InvalidInput as error:
        raise InvalidInput(f"{file}: {error}. Ask for the message again") from None
    if any(record.get(name) != amount for name, amount in epsilon_parts(mechanism, header.entries).items()):
        raise InvalidInput(
            f"{file}: the parts of epsilon do not add up to epsilon_total; the message was edited. Ask for it again"
        )
    return mechanism, header


def epsilon_parts(mechanism: FiniteMechanism, entries: int = 1) -> dict[str, str]:
    """Return the cost of a message as exact text: the prior, the randomized label, and both together.

    It is the cost for each label, or for each person with up to `entries` labels.
    """
    amounts = {
        "epsilon_prior": prior_epsilon(mechanism),
        "epsilon_labels": mechanism.epsilon_exact,
        "epsilon_total": total_epsilon(mechanism),
    }
    return {name: exact_text(entries * amount) for name, amount in amounts.items()}


def prior_epsilon(mechanism: FiniteMechanism) -> Fraction:
    """Return the cost of the mechanism's prior; a public prior costs nothing."""
    return Fraction(0) if mechanism.prior is None else mechanism.prior.epsilon_exact


def total_epsilon(mechanism: FiniteMechanism) -> Fraction:
    """Return the cost of a message for each label: the private prior and the randomized label."""
    return prior_epsilon(mechanism) + mechanism.epsilon_exact


def check_charge(mechanism: FiniteMechanism, charged: Fraction, entries: int = 1) -> None:
    """Raise `PrivacyRefused` if a mechanism, including its prior, costs more than was charged for it.

    `entries` is the number of randomized labels per person. Each of them costs the same.
    """
    cost = entries * total_epsilon(mechanism)
    if cost > charged:
        raise PrivacyRefused(
            f"the mechanism costs ε = {decimal_text(cost)} with its prior, but only ε = {decimal_text(charged)} was charged for "
            "this release. Nothing may be randomized with it: charge a release of its cost"
        )
