"""`labeldp train` on an answer with sums."""

from __future__ import annotations

import shlex
from pathlib import Path

from labeldp.cli.console import line, phases, print_json, stoppable
from labeldp.errors import InvalidInput
from labeldp.shown import count_of


def train_from_sums(
    folder: Path,
    features: Path,
    id_column: str,
    plan: Path | None,
    model_path: Path,
    delimiter: str | None,
    given: dict[str, bool],
    *,
    verify_key: Path | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Train and save. `given` says which options were given that are for messages alone."""
    from labeldp.central.sums_release import SumsAnswer
    from labeldp.training.from_sums import train_on_sums

    if plan is None:
        raise InvalidInput(
            f"{folder} is an answer with sums: give --plan too, the plan.json that labeldp cells wrote beside cells.parquet"
        )
    if names := [name for name, is_given in given.items() if is_given]:
        one = len(names) == 1
        raise InvalidInput(
            f"{' and '.join(names)} {'is' if one else 'are'} for messages of labeldp privatize, and {folder} is an answer with sums: "
            f"leave {'it' if one else 'them'} out. Columns are chosen with labeldp cells"
        )
    with stoppable("No model was written"), phases(quiet=quiet or as_json) as phase:
        saved = train_on_sums(
            SumsAnswer.open(folder, verify_key=verify_key), features, id_column, plan, delimiter=delimiter, phase=phase
        )
    saved.save(model_path)
    facts = saved.facts
    if as_json:
        print_json(facts)
    elif not quiet:
        line(
            "model",
            f"{model_path}: sums of {count_of(facts['records'], 'label')} for squared loss, ε = {facts['epsilon']:g}",
        )
        if rest := facts["features_without_label"]:
            line(
                "unpaired",
                f"{count_of(rest, 'row')} of features {'was' if rest == 1 else 'were'} not summed and not used",
            )
        value, low, high = (f"{100 * facts['explained'][name]:.0f} %" for name in ("value", "lower", "upper"))
        line("verdict", f"the model explains about {value} ({low} to {high}) of the labels' variation")
        line(
            "",
            "(from the noisy sums alone, if effects of columns add up; the interval is for the noise of the histogram)",
        )
        line("next", f"labeldp predict {model_path} FILE --id {shlex.quote(id_column)} --out predictions.parquet")
