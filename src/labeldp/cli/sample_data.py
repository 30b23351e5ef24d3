"""`labeldp sample-data`: two small files to try the other commands on."""

from pathlib import Path
from typing import Annotated

import typer

from labeldp.cli.console import line


def sample_data(
    folder: Annotated[Path, typer.Argument(metavar="[DIR]", help="Where to write; this folder by default.")] = Path(),
    rows: Annotated[int, typer.Option(min=100, help="How many orders to generate.")] = 20_000,
) -> None:
    """Write two small files to try the other commands on: sales.parquet and clicks.parquet.

    Sales has a column order and a column amount, from 0 to 400. Clicks has order and features that say something about the
    amount.

    The data is generated, and the same every time. Files that exist are not replaced.

    Example: labeldp sample-data /tmp/trial
    """
    from labeldp.paper.data.criteo_generated import write_sample_data

    sales, clicks = write_sample_data(folder, rows)
    line("labels", f"{sales}  ({rows:,} rows: order, amount)")
    line("features", f"{clicks}  ({rows:,} rows: order and features)")
