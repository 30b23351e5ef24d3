"""What several commands tell of a run: how many labels were clipped, how many persons there are, and the outcome for `--json`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from labeldp.cli.console import line, note, print_json
from labeldp.formatting import count_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from labeldp.cli.options import Shown
    from labeldp.release.labels import ReleaseOutcome


def note_clipped(clipped: int, records: int, out_of_range: str, *, quiet: bool) -> None:
    """Tell the labels party how many labels were clipped. ε does not cover the number, so it is in no result.

    If they are many, there was a warning already. With --quiet, whose output may go to a log, no number is shown.
    """
    from labeldp.domain import MOST_CLIPPED

    many = clipped > MOST_CLIPPED * records
    unmeant = many and out_of_range != "clip-all"
    if quiet and unmeant:
        note(
            f"more than {MOST_CLIPPED:.0%} of the labels lay outside the bounds and were moved to them. If that is not meant, "
            "choose wider bounds from what is publicly known. This is about the true labels: keep it to yourself"
        )
    elif clipped and not quiet and not unmeant:
        was = "was" if clipped == 1 else "were"
        note(
            f"{count_of(clipped, 'label')} lay outside the bounds and {was} moved to them. Keep this number to yourself: it is "
            "not part of what ε covers"
        )


def note_left_out(outcome: ReleaseOutcome) -> None:
    """Print the number of rows without a private label, if a person is the unit of privacy."""
    if outcome.unit == "person":
        most = f"at most {count_of(outcome.entries, 'row')}"
        line(
            "left out",
            f"{count_of(outcome.left_out, 'row')}: the message has {most} of each person, chosen without looking at labels",
        )


def records_text(records: int, persons: int | None) -> str:
    """Return the number of records, and of persons if ε is for each of them."""
    return f"{records:,}" if persons is None else f"{records:,} of {persons:,} persons, each of whom counts as one"


def for_each(persons: int | None) -> str:
    """Return what follows ε where it is for each person."""
    return "" if persons is None else " for each person"


def tell_outcomes(
    outcomes: dict[str, ReleaseOutcome],
    tell: Callable[[ReleaseOutcome], None],
    out_of_range: str,
    shown: Shown,
    *,
    several: bool,
) -> None:
    """Print the outcome of a release for each label, in words or as JSON, and how many labels were clipped."""
    for outcome in outcomes.values():
        read = outcome.records + outcome.already_held + outcome.left_out
        note_clipped(outcome.clipped, read, out_of_range, quiet=shown.quiet)
    if shown.as_json:
        records = {name: outcome_record(outcome) for name, outcome in outcomes.items()}
        print_json({"messages": records} if several else next(iter(records.values())))
    elif not shown.quiet:
        for outcome in outcomes.values():
            tell(outcome)


def outcome_record(outcome: ReleaseOutcome) -> dict[str, Any]:
    """The outcome for `--json`."""
    mechanism = outcome.mechanism
    spent = mechanism.prior.epsilon_exact if mechanism.prior is not None else 0
    return {
        "message": str(outcome.message),
        "records": outcome.records,
        "already_held": outcome.already_held,
        "message_records": outcome.message_records,
        "left_out": outcome.left_out,
        "unit": outcome.unit,
        "labels_per_unit": outcome.entries,
        "resumed": outcome.resumed,
        "epsilon": outcome.entries * (mechanism.epsilon_exact + spent),
        "epsilon_prior": float(outcome.entries * spent),
        "epsilon_labels": float(outcome.entries * mechanism.epsilon_exact),
        "outputs": int(mechanism.outputs.size),
        "digest": mechanism.digest,
    }
