"""Answers as JSON and back: integers as strings, unknown fields refused, and nothing believed that can be computed."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.central.answer import Answer
from labeldp.domain import Domain
from labeldp.errors import InvalidInput, described

_ANSWER_FIELDS = {"kind", "clip", "grain", "sizes", "sensitivity", "scale", "epsilon", "counts", "values"}
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,18}", re.ASCII)


def answer_to_record(answer: Answer) -> dict[str, Any]:
    """An answer as JSON can hold it, with integers as strings."""
    return {
        "kind": answer.kind,
        "clip": [str(end) for end in answer.clip],
        "grain": str(answer.grain),
        "sizes": [str(size) for size in answer.sizes],
        "sensitivity": str(answer.sensitivity),
        "scale": answer.scale,
        "epsilon": str(answer.epsilon_exact),
        "counts": [str(count) for count in answer.counts.tolist()],
        "values": [str(value) for value in answer.values.tolist()],
    }


def expect_fields(record: dict[str, Any], fields: set[str], what: str) -> None:
    """Refuse a record that lacks a field or has one too many."""
    if unknown := set(record) - fields:
        raise InvalidInput(f"{what} have a field that is not known here: {min(unknown)!r:.40}")
    if missing := fields - set(record):
        raise InvalidInput(f"{what} lack the field {min(missing)!r}")


def domain_from_record(fields: Any) -> Domain:
    """The domain from its list of fields, which must be as `Domain.to_json` writes them."""
    try:
        domain = Domain(*fields)
    except TypeError:
        raise InvalidInput("the domain of private sums is damaged") from None
    if domain.to_json() != fields or domain.cells is None:
        raise InvalidInput("the domain of private sums is damaged or has no grid")
    return domain


def answer_from_record(record: Any, domain: Domain) -> Answer:
    """What `answer_to_record` wrote; anything else is refused."""
    if not isinstance(record, dict):
        raise InvalidInput("an answer of private sums must be an object")
    expect_fields(record, _ANSWER_FIELDS, "the answers of private sums")
    scale, clip = record["scale"], _integers(record["clip"], "clip")
    if type(scale) is not float or clip.size != 2:
        raise InvalidInput("the scale or the clip of an answer is damaged")
    answer = Answer(
        kind=str(record["kind"]),
        values=_integers(record["values"], "values"),
        scale=scale,
        clip=(int(clip[0]), int(clip[1])),
        counts=_integers(record["counts"], "counts"),
        sizes=tuple(_integers(record["sizes"], "sizes").tolist()),
        domain=domain,
        grain=integer_from_text(record["grain"], "grain"),
    )
    if answer_to_record(answer) != record:
        raise InvalidInput("the sensitivity or the epsilon of an answer is not what follows from its other fields")
    return answer


def _integers(texts: Any, what: str) -> NDArray[np.int64]:
    if not isinstance(texts, list):
        raise InvalidInput(f"the {what} of an answer must be a list")
    return np.array([integer_from_text(text, what) for text in texts], np.int64)


def integer_from_text(text: Any, what: str) -> int:
    """A whole number of 64 bits from its decimal digits."""
    if not isinstance(text, str) or not _INTEGER.fullmatch(text) or abs(int(text)) >= 2**63:
        raise InvalidInput(f"{what} must be whole numbers written as strings, got {described(text)}")
    return int(text)
