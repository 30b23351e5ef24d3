"""`labeldp compare`: what each mechanism costs, before anything is released. `labeldp explore`: a page to look at the same."""

from __future__ import annotations

import math
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from labeldp.cli.console import line, out, print_json, print_table
from labeldp.cli.options import LOSSES, Json, OutputOption, comma_list, losses, mechanisms, offers
from labeldp.errors import InvalidInput
from labeldp.formatting import plain_number

if TYPE_CHECKING:
    from labeldp.domain import Domain
    from labeldp.evaluate.comparison import Comparison
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
    loss: Annotated[
        str, typer.Option(metavar="LOSS", help=f"The loss to expect: {LOSSES}.", autocompletion=offers(losses))
    ] = "squared",
    mechanisms: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,…", help="Only these of the mechanisms listed below.", autocompletion=offers(mechanisms)
        ),
    ] = None,
    records: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="How many records a model is trained on. By default the number in the dataset, or 100,000.",
        ),
    ] = None,
    explained: Annotated[
        str,
        typer.Option(
            metavar="SHARE", help="The share of the labels' variance that features explain at best, as in advise."
        ),
    ] = "0.5",
    folder: Annotated[
        Path | None, OutputOption("--out", metavar="DIR", help="Also write comparison.csv, .png and .svg here.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Compare every mechanism across ε: the error of a model trained on the labels, and of the labels themselves.

    Choose by the error of the model if you train one: noise averages out in training, bias does not.

    All figures are expectations under the prior. Nothing is sampled and nothing private is read.

    Give a public distribution or a prior released before. Labels themselves are not read: a look at them costs privacy.

    \b
    Examples:
      labeldp compare --dataset criteo --epsilon 0.5,1,2
      labeldp compare --dataset census --mechanisms rr-on-bins,rr-with-prior
      labeldp compare --dataset criteo --mechanisms auto,laplace --records 50000
      labeldp compare --prior prior.csv --loss absolute --out comparison
    """  # noqa: D301 - the escape keeps the lines of the examples
    _use_one_thread()
    from labeldp.evaluate.comparison import RECORDS, REFERENCES
    from labeldp.evaluate.comparison import compare as run

    distribution, domain, own = _distribution(prior, dataset)
    chosen = None if mechanisms is None else list(dict.fromkeys([*comma_list(mechanisms), *REFERENCES]))
    trained_on, share = records or own or RECORDS, plain_number(explained, "--explained")
    rows = list(
        run(
            distribution,
            comma_list(epsilon),
            loss,
            mechanisms=chosen,
            domain=domain,
            records=trained_on,
            explained=share,
        )
    )
    if folder is not None:
        _write(rows, folder, loss)
    if as_json:
        print_json([asdict(row) for row in rows])
        return
    for each in dict.fromkeys(row.epsilon for row in rows):
        _show([row for row in rows if row.epsilon == each], loss)
    _explain(rows, share, "" if records else " (the dataset's own)" if own else " (assumed)")


def _use_one_thread() -> None:
    """The matrices here are small, and threads would wait for each other. OpenBLAS reads this when NumPy loads it."""
    if "numpy" not in sys.modules:
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def _distribution(path: Path | None, dataset: str | None) -> tuple[Prior, Domain | None, int | None]:
    """The prior; the label range and the training records of a named dataset's experiment, None for a file."""
    from labeldp.paper.published import CALIBRATED
    from labeldp.priors.prior import Prior

    if path is not None and dataset is None:
        return Prior.from_csv(path), None, None
    if path is not None or dataset is None:
        ways = ", ".join(["--prior CSV", *(f"--dataset {name}" for name in CALIBRATED.names)])
        raise InvalidInput(f"give the distribution of the labels: one of {ways}")
    known = CALIBRATED[dataset]
    return known.prior(), known.domain, known.train_rows


def _show(rows: list[Comparison], loss: str) -> None:
    """One table for one ε, what to choose first."""
    from labeldp.evaluate.comparison import NOT_PRIVATE, ranking_error

    modelled = rows[0].model_error is not None
    ordered = sorted(rows, key=ranking_error)
    private = [row for row in ordered if row.mechanism != NOT_PRIVATE]
    least = min((row.expected_loss for row in private), default=0.0)
    cells, bold = [], []
    for row in ordered:
        model = (_number(row.model_error),) if row.model_error is not None else ()
        cells.append(
            (
                row.mechanism + ("" if row.exact or row.mechanism == NOT_PRIVATE else " *"),
                *model,
                _number(row.expected_loss),
                _number(row.bias, 4),
                _number(row.variance),
                "continuous" if row.outputs is None else f"{row.outputs:,}",
            )
        )
        best = modelled and row is private[0]
        bold.append(1 if best else len(model) + 1 if row in private and row.expected_loss == least else -1)
    head = ("mechanism", *(("error of a model",) if modelled else ()), "error of a label", "bias (rms)", "variance")
    print_table(
        f"ε = {rows[0].epsilon:g}: expected {loss} error, lowest first",
        (*head, "outputs"),
        cells,
        bold=bold,
        left=[0],
    )


def _number(value: float, digits: int = 6) -> str:
    if not math.isfinite(value):
        return "infinite"
    return f"{value:,.0f}" if value >= 10**digits else f"{value:,.{digits}g}"


def _explain(rows: list[Comparison], explained: float, whose: str) -> None:
    if rows[0].model_error is not None:
        out.print(
            f"error of a model: predicted for training on {rows[0].records:,} records{whose}, if features explain {explained:g} of the labels' "
            "variance; --records and --explained change it. Noise averages out in training and bias does not, so noisy labels can "
            "make the better model."
        )
        out.print(
            "To train a model choose auto (privatize does, unless told otherwise). Where single labels are read, choose the "
            "least error of a label: rr-on-bins (privatize --for labels)."
        )
    else:
        out.print(
            "These are errors of single labels. To train a model choose auto all the same (privatize does, unless told otherwise): "
            "noise averages out in training and bias does not. The error of a model is predicted for squared loss only; "
            "docs/guides/mechanisms-and-losses.md has measured ones."
        )
        out.print(f"auto is designed for {rows[0].records:,} records{whose}; --records N changes it.")
    useless = "; a model above it is of no use" if rows[0].model_error is not None else ""
    out.print(f"not-private: the true labels. mean-only: the prior's mean for every record{useless}.")
    if any(row.outputs is None for row in rows):
        out.print("* a float mechanism, for comparison only: labeldp never releases with it")


def _write(rows: list[Comparison], folder: Path, loss: str) -> None:
    import csv

    from labeldp import plots
    from labeldp.evaluate.comparison import plot_comparison

    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "comparison.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(asdict(rows[0])))
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)
    axes = plot_comparison(rows, loss)
    for kind in ("png", "svg"):
        plots.save(axes, folder / f"comparison.{kind}", alt=plots.in_words(axes))


def explore(
    prior: Annotated[
        Path | None, typer.Option(metavar="CSV", help="Begin with this distribution: columns value and mass.")
    ] = None,
    message: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Begin with this received message, or with its mechanism.json."),
    ] = None,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Where to listen, on 127.0.0.1.", show_default="a free one")
    ] = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print the address.")] = False,
) -> None:
    """Open a page that shows what ε buys, what it risks, and what a mechanism does to a label.

    No label is read. The page runs on this machine, listens on 127.0.0.1 only and loads nothing from the network. Ctrl-C stops it.

    \b
    Examples:
      labeldp explore
      labeldp explore --prior prior.csv --no-browser --port 8600
      labeldp explore --message message
    """  # noqa: D301 - the escape keeps the lines of the examples
    from labeldp.explore.exchange import read_path
    from labeldp.explore.server import ADDRESS, free_port, require_streamlit, serve

    require_streamlit()
    if prior is not None and message is not None:
        raise InvalidInput("give one thing to begin with: --prior or --message")
    preset = message if prior is None else prior
    if preset is not None:
        read_path(preset)  # a file that cannot be used is refused here, where the user looks
    chosen = free_port(port)
    line("page", f"http://{ADDRESS}:{chosen}  (this machine only; Ctrl-C stops it)")
    serve(chosen, preset, browser=not no_browser)
