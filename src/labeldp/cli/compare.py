"""`labeldp compare`: what each mechanism costs, before anything is released."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from labeldp.cli.console import out, print_json, print_table
from labeldp.cli.lazy_help import LOSSES
from labeldp.cli.options import Json, OutputOption, comma_list
from labeldp.errors import InvalidInput

if TYPE_CHECKING:
    from labeldp.domain import Domain
    from labeldp.mechanisms.auto import Choice
    from labeldp.mechanisms.comparison import Comparison
    from labeldp.priors.prior import Prior


def compare(
    epsilon: Annotated[
        str, typer.Option(metavar="E,E,…", help="Privacy budgets, separated by commas.")
    ] = "0.5,1,2,4,8",
    prior: Annotated[
        Path | None, typer.Option(metavar="CSV", help="The distribution of the labels: columns value and mass.")
    ] = None,
    dataset: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="A distribution that comes with labeldp. An unknown name lists them."),
    ] = None,
    loss: Annotated[str, typer.Option(metavar="LOSS", help=f"The loss to expect: {LOSSES}.")] = "squared",
    mechanisms: Annotated[
        str | None, typer.Option(metavar="NAME,…", help="Only these of the mechanisms listed below.")
    ] = None,
    records: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Also predict the test error of a model trained on N records."),
    ] = None,
    folder: Annotated[
        Path | None, OutputOption("--out", metavar="DIR", help="Also write comparison.csv, .png and .svg here.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Compare expected loss, bias and variance of every mechanism across ε.

    All figures are exact expectations under the prior. Nothing is sampled and nothing private is read.

    Give a public distribution or a prior released before. Labels themselves are not read: a look at them costs privacy.

    \b
    Examples:
      labeldp compare --dataset criteo --epsilon 0.5,1,2
      labeldp compare --dataset census --mechanisms rr-on-bins,rr-with-prior
      labeldp compare --dataset criteo --mechanisms rr-on-bins,laplace --records 50000
      labeldp compare --prior prior.csv --loss absolute --out comparison
    """  # noqa: D301 - the escape keeps the lines of the examples
    from labeldp.mechanisms.auto import alternatives
    from labeldp.mechanisms.comparison import compare as run

    distribution, domain = _distribution(prior, dataset)
    epsilons, chosen = comma_list(epsilon), comma_list(mechanisms) or None
    rows = list(run(distribution, epsilons, loss, mechanisms=chosen, domain=domain, records=records))
    if folder is not None:
        _write(rows, folder, loss)
    choices: list[Choice] = []
    if records is not None:
        choices = [c for epsilon in epsilons for c in alternatives(distribution, epsilon, records, domain=domain)]
    if as_json:
        figures = [asdict(row) for row in rows]
        training = [_training_figures(choice) for choice in choices]
        print_json(figures if records is None else {"mechanisms": figures, "training": training})
        return
    _show(rows, loss)
    if records is not None:
        _show_training(choices, records)


def _distribution(path: Path | None, dataset: str | None) -> tuple[Prior, Domain | None]:
    """The prior, and the label range: the experiment's for a named dataset, the prior's own for a file."""
    from labeldp.paper.data import CALIBRATED
    from labeldp.priors.prior import Prior

    if path is not None and dataset is None:
        return Prior.from_csv(path), None
    if path is not None or dataset is None:
        ways = ", ".join(["--prior CSV", *(f"--dataset {name}" for name in CALIBRATED.names)])
        raise InvalidInput(f"give the distribution of the labels: one of {ways}")
    known = CALIBRATED[dataset]
    return known.prior(), known.domain


def _show(rows: list[Comparison], loss: str) -> None:
    least = {
        epsilon: min(r.expected_loss for r in rows if r.epsilon == epsilon) for epsilon in {r.epsilon for r in rows}
    }
    cells, before = [], ""
    for row in rows:
        cells.append(
            (
                "" if row.mechanism == before else row.mechanism + ("" if row.exact else " *"),
                f"{row.epsilon:g}",
                f"{row.expected_loss:,.6g}" if math.isfinite(row.expected_loss) else "infinite",
                f"{row.bias:,.4g}",
                f"{row.variance:,.6g}",
                "continuous" if row.outputs is None else f"{row.outputs:,}",
            )
        )
        before = row.mechanism
    print_table(
        f"expected {loss} loss of a private label, lowest in bold",
        ("mechanism", "ε", "expected loss", "bias (rms)", "variance", "outputs"),
        cells,
        bold=[2 if row.expected_loss == least[row.epsilon] else -1 for row in rows],
        left=[0],
    )
    if not all(row.exact for row in rows):
        out.print("* a float mechanism, for comparison only: labeldp never releases with it")
    out.print("auto and bias-variance are designed for models, not for the labels: --records N predicts what they give")


def _training_figures(choice: Choice) -> dict[str, Any]:
    return {
        "epsilon": choice.mechanism.epsilon,
        "choice": choice.name,
        "visible_bias": choice.excess.squared_bias**0.5,
        "variance": choice.excess.variance,
        "predicted_test_error": choice.predicted_error,
        "why": choice.why,
    }


def _show_training(choices: list[Choice], records: int) -> None:
    from labeldp.mechanisms.auto import VISIBLE

    least: dict[float, float] = {}
    cells = []
    for choice in choices:
        epsilon = choice.mechanism.epsilon
        cells.append(
            (
                "" if epsilon in least else f"{epsilon:g}",
                choice.name,
                f"{choice.excess.squared_bias**0.5:,.3g}",
                f"{choice.excess.variance:,.5g}",
                f"{choice.predicted_error:,.5g}",
            )
        )
        least[epsilon] = min(choice.predicted_error, least.get(epsilon, math.inf))
    print_table(
        f"for training on {records:,} records, least predicted error in bold",
        ("ε", "choice", "bias seen (rms)", "variance", "predicted test MSE"),
        cells,
        bold=[4 if choice.predicted_error <= least[choice.mechanism.epsilon] * 1.0001 else -1 for choice in choices],
        left=[1],
    )
    out.print(f"predicted for features that explain {VISIBLE:g} of the label; a model keeps bias and averages variance")


def _write(rows: list[Comparison], folder: Path, loss: str) -> None:
    import csv

    from labeldp import plots
    from labeldp.mechanisms import MECHANISMS

    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "comparison.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(asdict(rows[0])))
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)
    epsilons = sorted({row.epsilon for row in rows})
    lines: dict[str, list[float]] = {}
    for row in sorted(rows, key=lambda row: row.epsilon):
        lines.setdefault(row.mechanism, []).append(row.expected_loss)
    axes = plots.curves(
        epsilons,
        lines,
        colours={name: MECHANISMS[name].colour for name in lines},
        dashed=[row.mechanism for row in rows if not row.exact],
        ylabel=f"expected {loss} loss",
        title="error of a private label (dashed: float mechanisms)",
    )
    for kind in ("png", "svg"):
        plots.save(axes, folder / f"comparison.{kind}", alt=plots.in_words(axes))
