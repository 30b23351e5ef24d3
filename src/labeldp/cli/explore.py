"""`labeldp explore`: a page on this machine to look at ε, distributions and mechanisms."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from labeldp.cli.console import line
from labeldp.errors import InvalidInput


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
    from labeldp.explore.server import ADDRESS, free_port, require_streamlit, serve
    from labeldp.explore.uploads import read_path

    require_streamlit()
    if prior is not None and message is not None:
        raise InvalidInput("give one thing to begin with: --prior or --message")
    preset = message if prior is None else prior
    if preset is not None:
        read_path(preset)  # a file that cannot be used is refused here, where the user looks
    chosen = free_port(port)
    line("page", f"http://{ADDRESS}:{chosen}  (this machine only; Ctrl-C stops it)")
    serve(chosen, preset, browser=not no_browser)
