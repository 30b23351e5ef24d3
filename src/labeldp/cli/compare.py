"""`labeldp compare`: what each mechanism costs, before anything is released."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from labeldp.cli.console import out, print_json
from labeldp.cli.lazy_help import LOSSES
from labeldp.errors import InvalidInput

if TYPE_CHECKING:
    from labeldp.domain import Domain
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
    loss: Annotated[str, typer.Option(metavar="LOSS", help=f"What is expected: {LOSSES}.")] = "squared",
    mechanisms: Annotated[
        str | None, typer.Option(metavar="NAME,…", help="Only these mechanisms, separated by commas.")
    ] = None,
    records: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Also compare for training on N records: bias, variance, predicted error."
        ),
    ] = None,
    folder: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Also write comparison.csv, .png and .svg here.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare expected loss, bias and variance of every mechanism across ε.

    All figures are exact expectations under the prior; nothing is sampled and nothing private is read. So there is no file
    of labels to give: a look at it would cost privacy. Give what is known in public, or a prior released before.

    Examples:

      labeldp compare --dataset criteo --epsilon 0.5,1,2

      labeldp compare --dataset census --mechanisms rr-on-bins,rr-with-prior

      labeldp compare --dataset criteo --epsilon 0.5,2 --mechanisms rr-on-bins,laplace --records 50000

      labeldp compare --prior prior.csv --loss absolute --out comparison
    """
    from labeldp.mechanisms.comparison import compare as run

    distribution, domain = _distribution(prior, dataset)
    epsilons = [part.strip() for part in epsilon.split(",")]
    rows = list(
        run(
            distribution,
            epsilons,
            loss,
            mechanisms=None if mechanisms is None else [m.strip() for m in mechanisms.split(",")],
            domain=domain,
            records=records,
        )
    )
    if folder is not None:
        _write(rows, folder, loss)
    training = [] if records is None else _training(distribution, domain, epsilons, records)
    if as_json:
        figures: Any = [asdict(row) for row in rows]
        print_json(figures if records is None else {"mechanisms": figures, "training": training})
        return
    _show(rows, loss)
    if records is not None:
        _show_training(training, records)


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


def _training(prior: Prior, domain: Domain | None, epsilons: list[str], records: int) -> list[dict[str, Any]]:
    from labeldp.mechanisms.auto import alternatives

    return [
        {
            "epsilon": choice.mechanism.epsilon,
            "choice": choice.name,
            "visible_bias": choice.excess.squared_bias**0.5,
            "variance": choice.excess.variance,
            "predicted_test_error": choice.predicted_error,
            "why": choice.why,
        }
        for epsilon in epsilons
        for choice in alternatives(prior, epsilon, records, domain=domain)
    ]


def _show_training(rows: list[dict[str, Any]], records: int) -> None:
    from rich.table import Table

    from labeldp.mechanisms.auto import VISIBLE

    table = Table(title=f"for training on {records:,} records, least predicted error in bold", title_justify="left")
    for column in ("ε", "choice", "bias seen (rms)", "variance", "predicted test MSE"):
        table.add_column(column, justify="left" if column == "choice" else "right")
    before = None
    for row in rows:
        if before is not None and row["epsilon"] != before:
            table.add_section()
        least = min(other["predicted_test_error"] for other in rows if other["epsilon"] == row["epsilon"])
        figure = f"{row['predicted_test_error']:,.5g}"
        table.add_row(
            f"{row['epsilon']:g}" if row["epsilon"] != before else "",
            row["choice"],
            f"{row['visible_bias']:,.3g}",
            f"{row['variance']:,.5g}",
            f"[bold]{figure}[/bold]" if row["predicted_test_error"] <= least * 1.0001 else figure,
        )
        before = row["epsilon"]
    out.print(table)
    out.print(f"predicted for features that explain {VISIBLE:g} of the label; a model keeps bias and averages variance")


def _show(rows: list[Any], loss: str) -> None:
    from rich.table import Table

    best = {
        epsilon: min(r.expected_loss for r in rows if r.epsilon == epsilon) for epsilon in {r.epsilon for r in rows}
    }
    table = Table(title=f"expected {loss} loss of a private label, lowest in bold", title_justify="left")
    for column in ("mechanism", "ε", "expected loss", "bias (rms)", "variance", "outputs"):
        table.add_column(column, justify="left" if column == "mechanism" else "right")
    shown = ""
    for row in rows:
        if shown and row.mechanism != shown:
            table.add_section()
        figure = f"{row.expected_loss:,.6g}"
        table.add_row(
            "" if row.mechanism == shown else row.mechanism + ("" if row.exact else " *"),
            f"{row.epsilon:g}",
            f"[bold]{figure}[/bold]" if row.expected_loss == best[row.epsilon] else figure,
            f"{row.bias:,.4g}",
            f"{row.variance:,.6g}",
            "continuous" if row.outputs is None else f"{row.outputs:,}",
        )
        shown = row.mechanism
    out.print(table)
    if not all(row.exact for row in rows):
        out.print("* a float mechanism, for comparison only: labeldp never releases with it")


def _write(rows: list[Any], folder: Path, loss: str) -> None:
    import csv

    from labeldp import plots

    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "comparison.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(asdict(rows[0])))
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)
    epsilons = sorted({row.epsilon for row in rows})
    lines: dict[str, list[float]] = {}
    for row in sorted(rows, key=lambda row: row.epsilon):
        lines.setdefault(row.mechanism, []).append(row.expected_loss)
    axes = plots.curves(epsilons, lines, ylabel=f"expected {loss} loss", title="error of a private label")
    for kind in ("png", "svg"):
        plots.save(axes, folder / f"comparison.{kind}")
