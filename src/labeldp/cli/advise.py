"""`labeldp advise`: which ε? What models will be worth, what a target needs, and what an ε risks."""

from __future__ import annotations

from dataclasses import asdict
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from labeldp.cli.console import note, out, phases, print_json, print_table
from labeldp.cli.options import BoundsOrClasses, Classes, Integers, Json, Lower, OutputOption, Upper, comma_list
from labeldp.errors import InvalidInput
from labeldp.formatting import percent, plain, plain_number, whole_number

if TYPE_CHECKING:
    from labeldp.domain import Domain
    from labeldp.evaluate import Advice, Target
    from labeldp.mechanisms import Prediction
    from labeldp.priors.prior import Prior

METHODS = ("labels", "paper", "sums")

TELLING = 0.5
"""A score tells something if its interval reaches at most this share of the error to each side."""


def advise(
    lower: Lower = None,
    upper: Upper = None,
    integers: Integers = None,
    classes: Classes = None,
    records: Annotated[
        str | None,
        typer.Option(metavar="N", help="How many records a model will be trained on. A message knows its own."),
    ] = None,
    explained: Annotated[
        str,
        typer.Option(
            metavar="SHARE",
            help="The share of the labels' variance that features explain at best: the R² you hope for.",
        ),
    ] = "0.5",
    epsilon: Annotated[
        str, typer.Option(metavar="E,E,…", help="Privacy budgets, separated by commas.")
    ] = "0.25,0.5,1,2,4,8",
    prior: Annotated[
        Path | None, typer.Option(metavar="CSV", help="The distribution of the labels: columns value and mass.")
    ] = None,
    shape: Annotated[
        str | None,
        typer.Option(
            metavar="SHAPE",
            help="The same in words: uniform, normal:mean=80,sd=30, log-normal:mean=80,sd=90, gamma:mean=80,sd=60, exponential:mean=90 or poisson:mean=3.",
        ),
    ] = None,
    rate: Annotated[
        str | None,
        typer.Option(
            metavar="RATE",
            help="For two classes, instead of bounds and a distribution: the share of the second one, such as 0.03. "
            "--explained is then the share of the Brier score.",
        ),
    ] = None,
    message: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Take bounds, records and the public prior of this received message."),
    ] = None,
    target_r2: Annotated[
        str | None, typer.Option("--target-r2", metavar="R2", help="The R² to reach: gives the least ε and records.")
    ] = None,
    target_error: Annotated[
        str | None,
        typer.Option(metavar="E", help="The same as a root mean squared error, in the unit of the labels."),
    ] = None,
    persons: Annotated[
        str | None,
        typer.Option(
            metavar="N", help="Instead of --records: how many persons. Then ε is for all rows of a person together."
        ),
    ] = None,
    rows_per_person: Annotated[
        str, typer.Option(metavar="M", help="How many rows one person has: without --persons, ε counts for each.")
    ] = "1",
    value: Annotated[
        str | None, typer.Option(metavar="V", help="Tell risks about labels above this.", show_default="the middle")
    ] = None,
    public: Annotated[
        bool,
        typer.Option("--public", help="The distribution is public: nothing is spent on a private prior."),
    ] = False,
    plot: Annotated[
        Path | None, OutputOption(metavar="FILE", help="Also draw the errors against ε: a .png or .svg file.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Predict what models will be worth at each ε, whether you will be able to tell, and what an ε risks.

    No label is read. Give the public bounds, the number of records and, if it is public, the distribution of the labels.

    \b
    Examples:
      labeldp advise --lower 0 --upper 400 --records 50000 --shape log-normal:mean=80,sd=90
      labeldp advise --lower 0 --upper 400 --records 50000 --explained 0.6 --target-r2 0.5
      labeldp advise --integers 0:52 --records 20000 --shape poisson:mean=3 --rows-per-person 4
      labeldp advise --classes no,yes --rate 0.03 --records 50000 --explained 0.06
      labeldp advise --message message --target-error 60
      labeldp advise --lower 0 --upper 400 --persons 10000 --rows-per-person 5
    """  # noqa: D301 - the escape keeps the lines of the examples
    from labeldp.evaluate import advise as run

    bounds = BoundsOrClasses(lower, upper, integers, classes=classes)
    domain, count, known = _known(bounds, records, persons, prior, shape, message, rate)
    advice = run(
        domain,
        count,
        persons=None if persons is None else whole_number(persons, "--persons"),
        explained=plain_number(explained, "--explained"),
        epsilons=comma_list(epsilon),
        prior=known,
        shape=shape,
        target_r2=None if target_r2 is None else plain_number(target_r2, "--target-r2"),
        target_error=None if target_error is None else plain_number(target_error, "--target-error"),
        rows_per_person=whole_number(rows_per_person, "--rows-per-person"),
        value=None if value is None else plain_number(value, "--value"),
        public=public,
    )
    if plot is not None:
        from labeldp import plots

        if plot.suffix.lower() not in {".png", ".svg"}:
            raise InvalidInput(f"--plot takes the name of a .png or .svg file, got {plot.name!r}")
        axes = advice.plot()
        plots.save(axes, plot, alt=plots.in_words(axes))
    numbers = domain.classes is None
    if numbers:  # train estimates no R² of classes
        with phases(quiet=as_json) as phase:
            phase("intervals", None)
            _ = advice.foreseen
    if as_json:
        print_json(_as_data(advice, foreseen=numbers))
        return
    _show(advice, foreseen=numbers)


def _known(
    bounds: BoundsOrClasses,
    records: str | None,
    persons: str | None,
    prior: Path | None,
    shape: str | None,
    message: Path | None,
    rate: str | None,
) -> tuple[Domain, int | None, Prior | None]:
    """Bounds, records and prior, from the options or from a message."""
    from labeldp.priors.prior import Prior

    if sum(each is not None for each in (prior, shape, message, rate)) > 1:
        raise InvalidInput("give one distribution of the labels: --prior, --shape, --rate or --message")
    if message is not None:
        from labeldp.evaluate.advice import known_from_message

        if any(each is not None for each in (bounds.lower, bounds.upper, bounds.integers, bounds.classes)):
            raise InvalidInput("a message has its own bounds: leave --lower, --upper, --integers and --classes out")
        domain, held, known = known_from_message(message)
        if persons is not None:
            return domain, None, known
        return domain, held if records is None else whole_number(records, "--records"), known
    if (records is None) == (persons is None):
        raise InvalidInput(
            "give the number of records that a model will be trained on, --records N, or that of --persons"
        )
    count = None if records is None else whole_number(records, "--records")
    if rate is not None:
        if any(each is not None for each in (bounds.lower, bounds.upper, bounds.integers)):
            raise InvalidInput(
                "two classes have no bounds: leave --lower, --upper and --integers out, or leave --rate out"
            )
        share = plain_number(rate, "--rate")
        if not 0 < share < 1:
            raise InvalidInput(f"--rate is the share of the second class, between 0 and 1, got {rate}")
        named = bounds if bounds.classes is not None else BoundsOrClasses(classes="the first class,the second class")
        return named.domain(), count, Prior([0, 1], [1 - share, share])
    domain = bounds.domain()
    return domain, count, None if prior is None else Prior.from_csv(prior)


def _show(advice: Advice, *, foreseen: bool) -> None:
    classes = advice.log_loss(advice.not_private) is not None
    if advice.assumed and classes:
        note("both classes are taken as equally frequent, so this is a rough guide. --rate 0.03 makes it better.")
    elif advice.assumed:
        note(
            "labels are taken as uniform between the bounds, so this is a rough guide. A shape (--shape log-normal:mean=80,sd=90), a prior or "
            "a message makes it better."
        )
    best = None if advice.recommended is None else advice.recommended.epsilon
    rows = [[f"{each.epsilon:g}", *_cells(advice, each.labels), *_cells(advice, each.sums)] for each in advice.outlooks]
    figures = ("log loss" if classes else "RMSE", "R²", "likely R²")
    whom = f"{advice.records:,} records"
    if advice.persons is not None:
        whom = f"{advice.persons:,} persons with {whom}"
    print_table(
        f"Predicted test error of a model on {whom}, features explain {advice.explained:g} of the variance",
        ("ε", *(f"{name} {figure}" for name in ("labels", "sums") for figure in figures)),
        rows,
        bold=[2 if each.epsilon == best else -1 for each in advice.outlooks],
        together=3,
    )
    for name, reference in (("no privacy", advice.not_private), ("the mean for all", advice.mean_only)):
        loss, error = advice.log_loss(reference), f"MSE {plain(reference.mse)}, RMSE {plain(reference.rmse)}"
        if loss is not None:
            error = f"log loss {loss:.4f}, Brier score {plain(reference.mse)}"
        out.print(f"{name}: {error}, R² {reference.r2:.2f}")
    unit = "R² is that of the Brier score" if classes else "RMSE is in the unit of the labels"
    out.print(
        "labels: private labels by auto. sums: noisy sums, for a team that holds features and labels. "
        f"{unit}. likely R²: the range of nine of ten models on real data, if features explain what they are taken to."
    )
    if advice.persons is not None:
        used = ", ".join(f"{each.entries} at ε = {each.epsilon:g}" for each in advice.outlooks)
        out.print(f"ε is for each person. labels: the rows of a person that are used, which share ε: {used}.")
    out.print()
    out.print(advice.recommendation)
    if foreseen:
        _show_foreseen(advice)
    if advice.target is not None:
        _show_target(advice, advice.target)
    _show_risks(advice)


def _show_foreseen(advice: Advice) -> None:
    rows = []
    for outlook, each in zip(advice.outlooks, advice.foreseen, strict=True):
        known = "not known" if each.r2 is None else f"{each.r2[0]:.2f} to {each.r2[1]:.2f}"
        told = ("none", "")
        if each.score_epsilon is not None and each.score_within is not None and each.score_share is not None:
            told = f"{each.score_epsilon:g}", f"± {plain(each.score_within, 2)} (± {100 * each.score_share:.0f} %)"
        rows.append([f"{outlook.epsilon:g}", known, *told])
    print_table("What will be known about the model", ("ε", "R² by train", "ε of a score", "MSE by that score"), rows)
    out.print(
        "R² by train: the 95 % interval from private labels alone, which costs nothing. not known: it will not show whether the model is "
        "better than the mean. A score (labeldp score) costs its own ε for each record."
    )
    best = advice.recommended
    if best is not None and (each := advice.foreseen[advice.outlooks.index(best)]).r2 is None and each.score_epsilon:
        keep = f"keep ε = {each.score_epsilon:g} for a score"
        if each.score_share is not None and each.score_share > TELLING:
            keep = f"a score that does costs about ε = {each.score_epsilon * each.score_share / TELLING:.2g}"
        out.print(f"At ε = {best.epsilon:g} private labels alone will not show that the model is good: {keep}.")


def _show_target(advice: Advice, target: Target) -> None:
    out.print()
    what = f"R² = {target.r2:.3g} (RMSE {plain(target.rmse)})"
    if target.why_not:
        out.print(f"Target {what}: not with these records. {target.why_not}")
    else:
        ways = [
            f"no ε up to 40 is enough with {name}" if least is None else f"ε = {least:g} is the least with {name}"
            for name, least in (("private labels", target.epsilon_labels), ("noisy sums", target.epsilon_sums))
        ]
        out.print(f"Target {what} with {advice.records:,} records: {ways[0]}, {ways[1]}.")
    if target.r2 >= advice.explained:
        return
    rows = [
        [f"{each.epsilon:g}", _count(labels), _count(sums)]
        for each, labels, sums in zip(advice.outlooks, target.records_labels, target.records_sums, strict=True)
    ]
    print_table("Least number of records for this target", ("ε", "labels", "sums"), rows)
    out.print(f"no privacy: {_count(target.records_not_private)}")


def _show_risks(advice: Advice) -> None:
    from labeldp.evaluate.risk import odds

    several = advice.outlooks[0].risk.rows
    rows = [
        [
            f"{each.epsilon:g}",
            percent(each.risk.most(0.5)),
            percent(each.risk.most(0.01)),
            f"× {odds(each.risk.odds_factor)}",
            percent(each.risk.advantage),
        ]
        for each in advice.outlooks
    ]
    alone = "one label" if advice.persons is None else "all rows of one person together"
    whose = alone if several == 1 else f"the {several:,} rows of one person, which count {several:,} times"
    print_table(
        f"What ε risks at worst, for {whose}",
        ("ε", "50 % becomes at most", "1 % becomes at most", "odds", "advantage over guessing"),
        rows,
    )
    shown = advice.recommended or advice.outlooks[0]
    out.print(f"In words, at ε = {shown.epsilon:g}:")
    for sentence in shown.risk.words(advice.statement):
        out.print(sentence)


def _cells(advice: Advice, prediction: Prediction) -> tuple[str, str, str]:
    (low, high), loss = prediction.likely_r2, advice.log_loss(prediction)
    return (
        plain(prediction.rmse, 3) if loss is None else f"{loss:.4f}",
        f"{prediction.r2:.2f}",
        f"{low:.2f} to {high:.2f}",
    )


def _count(number: int | None) -> str:
    from labeldp.evaluate.foreseen import LEAST_RECORDS

    if number is None:
        return "over 10^9"
    return f"{number:,}" if number > LEAST_RECORDS else f"at most {number:,}"


def _as_data(advice: Advice, *, foreseen: bool) -> dict[str, Any]:
    def figures(prediction: Prediction) -> dict[str, float]:
        found = {"mse": prediction.mse, "rmse": prediction.rmse, "r2": prediction.r2}
        loss = advice.log_loss(prediction)
        return found if loss is None else found | {"log_loss": loss}

    target = advice.target
    return {
        "records": advice.records,
        "persons": advice.persons,
        "explained": advice.explained,
        "rough": advice.assumed,
        "predictions": [
            {
                "epsilon": each.epsilon,
                "labels_per_unit": each.entries,
                **{name: figures(getattr(each, name)) for name in METHODS},
                "likely_r2": {"labels": each.labels.likely_r2, "sums": each.sums.likely_r2},
                "risk": {
                    "rows_per_person": each.risk.rows,
                    "odds_factor": each.risk.odds_factor,
                    "advantage": each.risk.advantage,
                    "half_becomes_at_most": each.risk.most(0.5),
                    "half_becomes_at_least": each.risk.least(0.5),
                },
                "words": each.risk.words(advice.statement),
                "foreseen": known and asdict(known),
            }
            for each, known in zip(advice.outlooks, advice.foreseen if foreseen else repeat(None), strict=False)
        ],
        "not_private": figures(advice.not_private),
        "mean_only": figures(advice.mean_only),
        "recommended_epsilon": None if advice.recommended is None else advice.recommended.epsilon,
        "recommendation": advice.recommendation,
        "target": None if target is None else asdict(target),
    }
