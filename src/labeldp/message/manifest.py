"""`mechanism.json`: the mechanism's public description and what is said about the release."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from fractions import Fraction
from importlib.metadata import version
from typing import Any

from labeldp.budget import decimal_text
from labeldp.errors import InvalidInput
from labeldp.mechanisms import FiniteMechanism

MESSAGE_VERSION = 1


@dataclass(frozen=True)
class Header:
    """What `mechanism.json` says about the release, besides the mechanism."""

    release: str
    id_column: str
    id_type: str
    keep_order: bool
    keyed: bool

    @staticmethod
    def of(record: Any) -> Header:
        if not isinstance(record, dict):
            raise InvalidInput("it describes a mechanism but no release")
        if record.get("message_version") != MESSAGE_VERSION:
            raise InvalidInput(
                f"the message has version {record.get('message_version')!r}, this labeldp reads {MESSAGE_VERSION}: "
                "install the version that wrote it, or a newer one"
            )
        kinds = {"release": str, "id_column": str, "id_type": str, "keep_order": bool, "keyed": bool}
        wrong = [name for name, kind in kinds.items() if not isinstance(record.get(name), kind)]
        if not wrong and not re.fullmatch("[0-9a-f]{32}", record["release"]):
            wrong = ["release"]
        if wrong:
            raise InvalidInput(f"its {', '.join(wrong)} is missing or damaged. Ask for the message again")
        return Header(**{name: record[name] for name in kinds})


def describe(mechanism: FiniteMechanism, header: Header) -> str:
    """The text of `mechanism.json`: the mechanism's own description and the release's."""
    prior = mechanism.prior
    spent = prior.epsilon_exact if prior is not None else Fraction(0)
    record = mechanism.to_record() | {
        "message": {"message_version": MESSAGE_VERSION, **{n: getattr(header, n) for n in Header.__dataclass_fields__}},
        "adjacency": "replace one label",
        "epsilon_prior": decimal_text(spent, places=400),
        "epsilon_labels": decimal_text(mechanism.epsilon_exact, places=400),
        "epsilon_total": decimal_text(spent + mechanism.epsilon_exact, places=400),
        "labeldp_version": version("labeldp"),
    }
    return json.dumps(record, indent=1, ensure_ascii=False) + "\n"
