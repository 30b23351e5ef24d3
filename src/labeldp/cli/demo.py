"""Commands to try: `labeldp demo`, every step from labels to model on generated data; `labeldp sample-data`, two small files to try the
commands on; `labeldp reproduce`, the paper's tables and figures.
"""

from __future__ import annotations

import math
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from labeldp.cli.console import err, line, note, out, phases, print_json, print_table, stoppable
from labeldp.cli.options import Json, OutputOption, comma_list
from labeldp.errors import InvalidInput

if TYPE_CHECKING:
    from labeldp.paper.experiments import Reproduction, Scale


def demo(
    folder: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="A new folder for data, messages and report.")
    ] = Path("labeldp-demo"),
    rows: Annotated[int, typer.Option(min=10_000, help="How many sales to generate.")] = 200_000,
    force: Annotated[bool, typer.Option("--force", help="Replace the folder of an earlier demo.")] = False,
) -> None:
    """See it work: a labels party sends private labels, and a features party trains on them.

    The demo generates sales like the purchases of the Criteo log and randomizes the amounts at ε = 1, with a ledger.

    It trains on the messages in three ways, and compares with a model that saw the true labels.

    The report shows what was sent, why `auto` trains better models, and one picture over several budgets.

    Example: labeldp demo --out /tmp/story
    """
    import shutil

    from labeldp.paper import demo as story

    if folder.exists():
        if not force or not (folder / "ledger.db").exists():
            raise InvalidInput(f"{folder} exists: give another --out, or --force to replace an earlier demo")
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    with err.status("starting") as status:

        def step(text: str) -> None:
            status.update(text)
            if not err.is_terminal:
                err.print(text)

        result = story.run_demo(folder, rows=rows, on_step=step)
        step("writing the report")
        story.report(result).write(folder / "report.html")
    print_table(
        f"mean squared test error of the model, ε = {story.EPSILON}",
        story.COLUMNS,
        story.table_rows(result),
        bold=[1 if row[0] == story.AUTO else -1 for row in story.table_rows(result)],
        left=[0],
    )
    out.print(
        "The paper's bins and their debiased values are one message; auto is another message at the same ε, designed for "
        "training. The report has the reasons, other budgets and the privacy card."
    )
    line("report", f"{folder / 'report.html'}")
    line(
        "message",
        f"{folder / f'message-auto-{story.EPSILON}'}  (manifest.json, mechanism.json, labels.parquet, PRIVACY.md)",
    )
    line("ledger", f"labeldp ledger show {folder / 'ledger.db'}")


def sample_data(
    folder: Annotated[Path, typer.Argument(metavar="[DIR]", help="Where to write; this folder by default.")] = Path(),
    rows: Annotated[int, typer.Option(min=100, help="How many orders to generate.")] = 20_000,
) -> None:
    """Write two small files to try the other commands on: sales.parquet and clicks.parquet.

    Sales has a column order and a column amount, from 0 to 400. Clicks has order and features that predict the
    amount.

    The data is generated, and the same every time. Files that exist are not replaced.

    Example: labeldp sample-data /tmp/trial
    """
    from labeldp.paper.data.criteo import write_sample_data

    sales, clicks = write_sample_data(folder, rows)
    line("labels", f"{sales}  ({rows:,} rows: order, amount)")
    line("features", f"{clicks}  ({rows:,} rows: order and features)")


LOG_SECONDS = 30.0


def reproduce(
    experiment: Annotated[
        str, typer.Argument(metavar="criteo|census|app-ads", help="Which of the paper's experiments.")
    ],
    data: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The genuine file. By default a stand-in is used.")
    ] = None,
    stand_in: Annotated[
        str | None, typer.Option(metavar="NAME", help="Another stand-in: rand-hie (real counts) for app-ads.")
    ] = None,
    mechanism_only: Annotated[
        bool, typer.Option("--mechanism-only", help="Only the error of the labels: exact, no training.")
    ] = False,
    full: Annotated[
        bool, typer.Option("--full", help="The paper's size: all rows, all ε, ten runs. Prints how long it will take.")
    ] = False,
    epsilon: Annotated[
        str | None, typer.Option(metavar="E,E,…", help="Budgets; inf (no privacy) is always trained.")
    ] = None,
    mechanisms: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,…", help="Train with these only; any mechanism that fits. An unknown name lists them."
        ),
    ] = None,
    rows: Annotated[int | None, typer.Option(min=1000, help="Rows to use, split 80/20 into training and test.")] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="Passes over the training rows.")] = None,
    runs: Annotated[int | None, typer.Option(min=1, help="Seeds. Each splits the data differently.")] = None,
    model: Annotated[
        Literal["network", "boosting"], typer.Option(help="The paper's network, or gradient boosting.")
    ] = "network",
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes that train side by side. By default one per core.")
    ] = None,
    folder: Annotated[
        Path | None, OutputOption("--out", metavar="DIR", help="For tables, figures, report and finished trainings.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Reproduce the paper's evaluation: tables, figures and a report with published and measured figures.

    The mechanism part is exact and takes seconds. The trained part can be interrupted and resumed.

    The same command with the same --out goes on where it stopped. More --runs, --epsilon or --mechanisms add to it.

    \b
    Examples:
      labeldp reproduce criteo --mechanism-only
      labeldp reproduce criteo --rows 200000 --runs 3 --epsilon 0.5,1,2,4,8,inf
      labeldp reproduce census --data EXT1940USCB.dat --full
    """  # noqa: D301 - the escape keeps the lines of the examples
    from labeldp.paper.experiments import Reproduction, get_task
    from labeldp.paper.experiments.figures import write_reproduction
    from labeldp.paper.experiments.tasks import PAPER_EPSILONS

    task = get_task(experiment)
    budgets = _epsilons(comma_list(epsilon)) or None
    private = budgets and tuple(epsilon for epsilon in budgets if math.isfinite(epsilon))
    given: dict[str, Any] = {"rows": rows, "epochs": epochs, "runs": runs, "epsilons": private}
    given = {name: value for name, value in given.items() if value is not None}
    scale = replace(task.full if full else task.quick, **given)
    chosen = comma_list(mechanisms) or list(task.methods)
    task = task.with_methods(chosen)
    place = Path(f"labeldp-{task.name}") if folder is None else folder
    with err.status("loading") if err.is_terminal else nullcontext():
        work = Reproduction.load(task, data=data, rows=scale.rows, stand_in=stand_in, trained=not mechanism_only)
        work.compute_exact(PAPER_EPSILONS if budgets is None else budgets)
    place.mkdir(parents=True, exist_ok=True)
    if not mechanism_only:
        if not work.genuine:
            note(f"no genuine data was given: training on {work.dataset.description if work.dataset else 'a stand-in'}")
        with stoppable("Finished trainings are kept: the same command goes on from there"), _progress() as progress:
            work.train(place, scale, chosen, model=model, workers=workers, on_message=_tell, on_progress=progress)
    repeated = _command(experiment, data, stand_in, scale, None if mechanism_only else model)
    written = write_reproduction(work, place, repeated)
    if as_json:
        print_json(_plain(work))
        return
    _show(work)
    line("report", str(written[-1]))
    line("figures", f"{place}: " + ", ".join(path.name for path in written if path.suffix in (".csv", ".png")))


def _epsilons(texts: Sequence[str]) -> tuple[float, ...]:
    from labeldp.budget import exact_epsilon

    return tuple(
        sorted({math.inf if text in ("inf", "∞", "infinity") else float(exact_epsilon(text)) for text in texts})
    )


def _show(work: Reproduction) -> None:
    from labeldp.paper.experiments.reproduction import grid, side_by_side

    out.print(work.data_in_words, soft_wrap=True, markup=False)
    for column, figures, of_stand_in, what in (
        ("mechanism", work.exact, work.exact_stand_in, "error of the private labels, exact"),
        ("test", work.tested, {}, "error of the models on test rows"),
    ):
        if not figures:
            continue
        if work.task.published:
            head, rows = side_by_side(column, figures, work.task.published, of_stand_in)
            named = "published, ours and the stand-in's" if of_stand_in else "published and ours"
            print_table(f"{what}: {named}", head, rows, together=4 if of_stand_in else 3)
        relative = column == "test" and work.task.loss == "poisson"
        head, rows, best = grid(figures, work.task.methods)
        title = "relative Poisson loss (E − E₀)/E₀ of the models" if relative else f"{what}: all methods"
        print_table(f"{title}, lowest in bold", head, rows, bold=best)
        if of_stand_in:
            head, rows, best = grid(of_stand_in, work.task.methods)
            print_table(f"{what}: all methods on the stand-in's labels, lowest in bold", head, rows, bold=best)
    for claim in work.claims():
        mark = "[green]holds[/green]         " if claim.holds else "[red]does not hold[/red] "
        out.print(f"{mark} {claim.text} ({claim.detail})", soft_wrap=True)


def _plain(work: Reproduction) -> dict[str, Any]:
    figures = [
        asdict(figure) | {"epsilon": figure.epsilon if math.isfinite(figure.epsilon) else "inf"}
        for figure in work.compared_figures()
    ]
    return {
        "experiment": work.task.name,
        "data": work.data_in_words,
        "settings": work.settings,
        "figures": figures,
        "claims": [asdict(claim) for claim in work.claims()],
    }


def _command(experiment: str, data: Path | None, stand_in: str | None, scale: Scale, model: str | None) -> str:
    parts = ["labeldp", "reproduce", experiment]
    if data is not None:
        parts += ["--data", data.name]
    if stand_in is not None:
        parts += ["--stand-in", stand_in]
    if model is None:
        return shlex.join([*parts, "--mechanism-only"])
    if model != "network":
        parts += ["--model", model]
    if scale.rows is not None:
        parts += ["--rows", str(scale.rows)]
    parts += ["--epochs", str(scale.epochs), "--runs", str(scale.runs)]
    parts += ["--epsilon", ",".join([*(f"{e:g}" for e in scale.epsilons), "inf"])]
    return shlex.join(parts)


def _tell(text: str) -> None:
    err.print(text, soft_wrap=True, markup=False)


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None]]:
    """Show the trainings done and the time left: as a bar on a terminal, as an occasional line in logs."""
    from labeldp.paper.experiments.trainings import duration

    start = last = time.monotonic()
    tick: Callable[[int], None] | None = None

    def update(done: int, total: int) -> None:
        nonlocal last, tick
        tick = tick or phase("training", total)
        if tick is not None:
            tick(1)
        elif done == total or time.monotonic() - last > LOG_SECONDS:
            last = time.monotonic()
            left = duration((last - start) / done * (total - done))
            _tell(f"{done} of {total} trainings" + ("" if done == total else f", about {left} left"))

    with phases() as phase:
        yield update
