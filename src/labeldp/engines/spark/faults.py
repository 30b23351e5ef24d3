"""What the driver says about records that cannot be released. On one machine the rows are named; here they are counted."""

from __future__ import annotations

from collections.abc import Mapping

from labeldp.domain import Domain, OutOfRange
from labeldp.errors import InvalidInput
from labeldp.formatting import count_of

_REPAIR = "Drop or repair these records first"


def refuse_faults(totals: Mapping[str, int], label: str, ids: str, domain: Domain, out_of_range: OutOfRange) -> None:
    """Refuses a frame in which pass one found faults. Nothing is charged yet."""
    refuse_label_faults(totals, label, domain, out_of_range)
    found = {name: count_of(count, "record") for name, count in totals.items()}
    if totals["missing_ids"]:
        raise InvalidInput(f"the id column {ids!r} has no id in {found['missing_ids']}. {_REPAIR}")
    if totals["not_text"]:
        raise InvalidInput(
            f"the id of {found['not_text']} in {ids!r} is not UTF-8 text, so nobody could read it. {_REPAIR}"
        )
    if totals["not_integers"]:
        raise InvalidInput(
            f"the id of {found['not_integers']} in {ids!r} is not a plain 64-bit integer. Give --id-type str to read all ids as text"
        )


def refuse_label_faults(totals: Mapping[str, int], label: str, domain: Domain, out_of_range: OutOfRange) -> None:
    """Refuses labels that cannot be released, the worst first."""
    found = {name: count_of(count, "record") for name, count in totals.items()}
    if totals["missing_labels"]:
        raise InvalidInput(f"the label column {label!r} is missing in {found['missing_labels']}. {_REPAIR}")
    if totals["not_finite"]:
        raise InvalidInput(
            f"labels must be finite numbers, but {label!r} has NaN or infinity in {found['not_finite']}. {_REPAIR}"
        )
    if totals["not_whole"]:
        raise InvalidInput(
            f"labels must be whole numbers, as the bounds say, but {found['not_whole']} in {label!r} are not. Is it the right "
            f"column? For labels in between, a release is made with Domain({domain.lower:g}, {domain.upper:g}) "
            "(privatize --lower --upper)"
        )
    if out_of_range == "error" and totals["clipped"]:
        raise InvalidInput(
            f"labels must lie from {domain.lower:g} to {domain.upper:g}, but {found['clipped']} in {label!r} do not. Widen the "
            "bounds, or move such labels to them with --out-of-range clip"
        )
