"""`labeldp demo`, every step from labels to model on generated data, and `labeldp sample-data`, two small files to try the commands on."""

from pathlib import Path
from typing import Annotated

import typer

from labeldp.cli.console import err, line, out, print_table
from labeldp.errors import InvalidInput


def run(
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

    from labeldp.paper import demo

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

        result = demo.run_demo(folder, rows=rows, on_step=step)
        step("writing the report")
        demo.report(result).write(folder / "report.html")
    print_table(
        f"mean squared test error of the model, ε = {demo.EPSILON}",
        demo.COLUMNS,
        demo.table_rows(result),
        bold=[1 if row[0] == demo.AUTO else -1 for row in demo.table_rows(result)],
        left=[0],
    )
    out.print(
        "The paper's bins and their debiased values are one message; auto is another message at the same ε, designed for "
        "training. The report has the reasons, other budgets and the privacy card."
    )
    line("report", f"{folder / 'report.html'}")
    line(
        "message",
        f"{folder / f'message-auto-{demo.EPSILON}'}  (manifest.json, mechanism.json, labels.parquet, PRIVACY.md)",
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
    from labeldp.paper.data.criteo_generated import write_sample_data

    sales, clicks = write_sample_data(folder, rows)
    line("labels", f"{sales}  ({rows:,} rows: order, amount)")
    line("features", f"{clicks}  ({rows:,} rows: order and features)")
