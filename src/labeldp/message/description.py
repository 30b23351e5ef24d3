"""`mechanism.json`: the public description of a message's mechanism and release."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from fractions import Fraction
from importlib.metadata import version
from pathlib import Path
from typing import Any, get_type_hints

from labeldp.budget import decimal_text
from labeldp.errors import InvalidInput
from labeldp.json_text import parse_json, read_text
from labeldp.mechanisms import FiniteMechanism
from labeldp.message.layout import MESSAGE_VERSION, check_version


@dataclass(frozen=True)
class Header:
    """What `mechanism.json` says about the release, besides the mechanism.

    Attributes
    ----------
    release : str
        The release's id: 32 hexadecimal digits.
    id_column : str
        The name of the id column.
    id_type : str
        What the ids are: "int" or "str".
    keep_order : bool
        Whether the rows are in the order of the input.
    keyed : bool
        Whether the labels party kept the key, so that later batches are possible.
    row_numbers : bool
        Whether the ids are the row numbers of the input, and so show its order.
    label_column : str
        The name of the label column, by which `train` notices a feature that is the label itself. The labels party gave
        it; it says nothing about any label.
    """

    release: str
    id_column: str
    id_type: str
    keep_order: bool
    keyed: bool
    row_numbers: bool
    label_column: str

    @staticmethod
    def of(record: Any) -> Header:
        """The header from its JSON record; refuses one that is missing, damaged or of another version."""
        if not isinstance(record, dict):
            raise InvalidInput("it describes a mechanism but no release. Give the folder that labeldp privatize wrote")
        check_version(record.get("message_version"))
        kinds = get_type_hints(Header)
        wrong = [name for name, kind in kinds.items() if not isinstance(record.get(name), kind)]
        if not wrong and not re.fullmatch("[0-9a-f]{32}", record["release"]):
            wrong = ["release"]
        if wrong:
            raise InvalidInput(f"{', '.join(wrong)} is missing or damaged. Ask for the message again")
        return Header(**{name: record[name] for name in kinds})


def describe(mechanism: FiniteMechanism, header: Header) -> str:
    """The text of `mechanism.json`."""
    record = mechanism.to_record() | {
        "message": {"message_version": MESSAGE_VERSION, **asdict(header)},
        "adjacency": "replace one label",
        **epsilon_parts(mechanism),
        "labeldp_version": version("labeldp"),
    }
    return json.dumps(record, indent=1, ensure_ascii=False) + "\n"


def read_description(file: Path) -> tuple[FiniteMechanism, Header]:
    """What `describe` wrote. The mechanism is proven again, and the parts of ε must add up."""
    text = read_text(file)
    try:
        record = parse_json(text, "the description")
        mechanism = FiniteMechanism.from_description(record)
        header = Header.of(record.get("message"))
    except InvalidInput as error:
        raise InvalidInput(f"{file}: {error}") from error
    if any(record.get(name) != amount for name, amount in epsilon_parts(mechanism).items()):
        raise InvalidInput(
            f"{file}: the parts of epsilon do not add up to epsilon_total; the message was edited. Ask for it again"
        )
    return mechanism, header


def epsilon_parts(mechanism: FiniteMechanism) -> dict[str, str]:
    """What a message costs for each label, as exact text: the prior, the randomized label, and both together."""
    amounts = {
        "epsilon_prior": prior_epsilon(mechanism),
        "epsilon_labels": mechanism.epsilon_exact,
        "epsilon_total": total_epsilon(mechanism),
    }
    return {name: decimal_text(amount, places=400) for name, amount in amounts.items()}


def prior_epsilon(mechanism: FiniteMechanism) -> Fraction:
    """What the mechanism's prior cost; a public prior costs nothing."""
    return Fraction(0) if mechanism.prior is None else mechanism.prior.epsilon_exact


def total_epsilon(mechanism: FiniteMechanism) -> Fraction:
    """What a message costs for each label: the private prior and the randomized label."""
    return prior_epsilon(mechanism) + mechanism.epsilon_exact
