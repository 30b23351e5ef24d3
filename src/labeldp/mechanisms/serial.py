"""Reading a mechanism back from its public description, trusting nothing in it."""

from __future__ import annotations

import json
from typing import Any, cast

import numpy as np

from labeldp.budget import written
from labeldp.domain import Domain
from labeldp.errors import InvalidInput
from labeldp.mechanisms.base import Mechanism
from labeldp.mechanisms.encoders import encoder_from_json
from labeldp.mechanisms.finite import FORMAT, FORMAT_VERSION, FiniteMechanism
from labeldp.prior import Prior
from labeldp.sampling import table_from_json


def mechanism_from_json(text: str) -> Mechanism:
    """Rebuilds a mechanism; its proof is done again and its digest compared."""
    try:
        record = json.loads(text)
    except json.JSONDecodeError as error:
        raise InvalidInput(f"the mechanism is not valid JSON: {error}") from error
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise InvalidInput(f"this JSON does not describe a labeldp mechanism (its format is not {FORMAT!r})")
    if record.get("format_version") != FORMAT_VERSION:
        raise InvalidInput(
            f"the mechanism has format version {record.get('format_version')!r}, this labeldp reads {FORMAT_VERSION}: "
            "install the version that wrote it, or a newer one"
        )
    return mechanism_from_record(record)


def mechanism_from_record(record: dict[str, Any]) -> Mechanism:
    from labeldp.mechanisms import COMPARISON_ONLY, EXACT

    kind = record.get("kind")
    try:
        if kind in COMPARISON_ONLY:
            return COMPARISON_ONLY[cast("str", kind)].from_parameters(record | {"epsilon": written(record["epsilon"])})
        if kind not in EXACT:
            raise InvalidInput(f"unknown mechanism {kind!r}; known: {', '.join([*EXACT, *COMPARISON_ONLY])}")
        mechanism = _assemble(EXACT[cast("str", kind)], record)
    except (KeyError, TypeError, IndexError, ZeroDivisionError, OverflowError) as error:
        raise InvalidInput(f"the mechanism's description is damaged: {type(error).__name__} {error}") from error
    except InvalidInput:
        raise
    except ValueError as error:
        raise InvalidInput(f"the mechanism's description is damaged: {error}") from error
    if mechanism.digest != record.get("digest"):
        raise InvalidInput(
            "the mechanism's digest does not match its numbers: the description was edited or damaged. "
            "Ask the labels party for the message again."
        )
    return mechanism


def _assemble(cls: type[FiniteMechanism], record: dict[str, Any]) -> FiniteMechanism:
    """Past the subclass's own constructor: the numbers are given, not designed again."""
    mechanism = cls.__new__(cls)
    prior = record.get("prior")
    FiniteMechanism.__init__(
        mechanism,
        encoder=encoder_from_json(record["encoder"]),
        table=table_from_json(record["table"]),
        outputs=np.asarray(record["outputs"], np.float64),
        epsilon=written(record["epsilon"]),
        domain=None if record["domain"] is None else Domain(*record["domain"]),
        prior=None if prior is None else Prior(prior["values"], prior["masses"], written(prior["epsilon"])),
        loss=record["loss"],
        details=record["details"],
    )
    return mechanism
