"""How `privatize` and `apply` show what they did."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from labeldp.cli.console import note

if TYPE_CHECKING:
    from labeldp.release.privatize import ReleaseOutcome


def note_clipped(outcome: ReleaseOutcome) -> None:
    """Tell the labels party how many labels were clipped. The number is not private, so it is in no result."""
    if outcome.clipped:
        note(
            f"{outcome.clipped:,} labels lay outside the bounds and were moved to them. Keep this number to yourself: it is "
            "not part of what ε covers"
        )


def outcome_record(outcome: ReleaseOutcome) -> dict[str, Any]:
    """The outcome for `--json`."""
    mechanism = outcome.mechanism
    spent = mechanism.prior.epsilon_exact if mechanism.prior is not None else 0
    return {
        "message": str(outcome.message),
        "records": outcome.records,
        "already_held": outcome.already_held,
        "resumed": outcome.resumed,
        "epsilon": mechanism.epsilon_exact + spent,
        "epsilon_prior": float(spent),
        "epsilon_labels": float(mechanism.epsilon_exact),
        "outputs": int(mechanism.outputs.size),
        "digest": mechanism.digest,
    }
