"""`labeldp reproduce`: the paper's tables and figures."""

from __future__ import annotations

import math
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from labeldp.cli.console import err, line, note, out, print_json, print_table, stoppable
from labeldp.cli.options import Json, OutputOption, comma_list

if TYPE_CHECKING:
    from labeldp.paper.experiments import Reproduction, Scale

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
    scale = replace(
        task.full if full else task.quick, **{name: value for name, value in given.items() if value is not None}
    )
    chosen = comma_list(mechanisms) or list(task.methods)
    task = task.with_methods(chosen)
    place = Path(f"labeldp-{task.name}") if folder is None else folder
    with _status("loading"):
        work = Reproduction.load(task, data=data, rows=scale.rows, stand_in=stand_in, trained=not mechanism_only)
    with _status("computing exact figures"):
        work.compute_exact(PAPER_EPSILONS if budgets is None else budgets)
    place.mkdir(parents=True, exist_ok=True)
    if not mechanism_only:
        if not work.genuine:
            note(f"no genuine data was given: training on {work.dataset.description if work.dataset else 'a stand-in'}")
        with stoppable("Finished trainings are kept: the same command goes on from there"), _bar() as progress:
            work.train(place, scale, chosen, model=model, workers=workers, on_message=_tell, on_progress=progress)
    written = write_reproduction(
        work, place, _command(experiment, data, stand_in, scale, None if mechanism_only else model)
    )
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
    from labeldp.paper.experiments import results

    out.print(work.data_in_words, soft_wrap=True, markup=False)
    for column, figures, of_stand_in, what in (
        ("mechanism", work.exact, work.exact_stand_in, "error of the private labels, exact"),
        ("test", work.tested, {}, "error of the models on test rows"),
    ):
        if not figures:
            continue
        if work.task.published:
            head, rows = results.side_by_side(column, figures, work.task.published, of_stand_in)
            named = "published, ours and the stand-in's" if of_stand_in else "published and ours"
            print_table(f"{what}: {named}", head, rows, together=4 if of_stand_in else 3)
        relative = column == "test" and work.task.loss == "poisson"
        head, rows, best = results.grid(figures, work.task.methods)
        title = "relative Poisson loss (E − E₀)/E₀ of the models" if relative else f"{what}: all methods"
        print_table(f"{title}, lowest in bold", head, rows, bold=best)
        if of_stand_in:
            head, rows, best = results.grid(of_stand_in, work.task.methods)
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


def _status(text: str) -> AbstractContextManager[object]:
    return err.status(text) if err.is_terminal else nullcontext()


@contextmanager
def _bar() -> Iterator[Callable[[int, int], None]]:
    """Show the trainings done and the time left: as a bar on a terminal, as an occasional line in logs."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from labeldp.paper.experiments.trainings import duration

    start = last = time.monotonic()

    def left(done: int, total: int) -> str:
        return duration((time.monotonic() - start) / done * (total - done))

    if not err.is_terminal:

        def log(done: int, total: int) -> None:
            nonlocal last
            if done == total or time.monotonic() - last > LOG_SECONDS:
                last = time.monotonic()
                _tell(f"{done} of {total} trainings" + ("" if done == total else f", about {left(done, total)} left"))

        yield log
        return
    columns = (
        TextColumn("training"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
    )
    with Progress(*columns, console=err) as shown:
        task = shown.add_task("training", total=None, left="")

        def update(done: int, total: int) -> None:
            shown.update(task, completed=done, total=total, left="" if done == total else f"{left(done, total)} left")

        yield update
