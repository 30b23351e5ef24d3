"""Starts the page: a Streamlit server that listens on this machine only and sends nothing anywhere."""

from __future__ import annotations

import os
import socket
import threading
import time
import urllib.request
import webbrowser
from importlib.util import find_spec
from pathlib import Path

from labeldp.errors import InvalidInput, MissingExtra
from labeldp.explore.exchange import MEGABYTES

ADDRESS = "127.0.0.1"
FIRST_PORT, LAST_PORT = 8501, 8599
"""Where a free port is looked for if none is given."""
APP = Path(__file__).parent / "app" / "labeldp_explore.py"
"""The application that Streamlit serves. Its folder contains nothing else but the page's script, because Streamlit puts that folder on
the import path."""


def require_streamlit() -> None:
    """Refuse to go on without the extra `explore`."""
    missing = [name for name in ("streamlit", "altair") if find_spec(name) is None]
    if missing:
        raise MissingExtra(f"the page needs {' and '.join(missing)}: pip install 'labeldp[explore]'")


def free_port(wanted: int | None) -> int:
    """Return the wanted port, or the first free one; an error if there is none."""
    if wanted is not None:
        if not _is_free(wanted):
            raise InvalidInput(f"port {wanted} is in use: choose another --port, or leave it out")
        return wanted
    found = next((port for port in range(FIRST_PORT, LAST_PORT + 1) if _is_free(port)), None)
    if found is None:
        raise InvalidInput(f"no port from {FIRST_PORT} to {LAST_PORT} is free: choose one with --port")
    return found


def settings(port: int) -> dict[str, str]:
    """Return how Streamlit is run: for this machine alone, without statistics, without tools for developers.

    They are given on its command line, which counts more than any config file or environment variable of the user.
    """
    return {
        "server.address": ADDRESS,
        "server.port": str(port),
        "server.headless": "true",  # it asks for no e-mail address and opens no browser: we do
        "server.fileWatcherType": "none",
        "server.runOnSave": "false",
        "server.enableCORS": "true",  # pages of other origins are refused
        "server.enableXsrfProtection": "true",
        "server.maxUploadSize": str(MEGABYTES),
        "server.enableStaticServing": "false",
        "browser.serverAddress": ADDRESS,
        "browser.serverPort": str(port),
        "browser.gatherUsageStats": "false",
        "client.toolbarMode": "minimal",
        "runner.magicEnabled": "false",
        "global.developmentMode": "false",
    }


def serve(port: int, preset: Path | None, *, browser: bool) -> None:
    """Run the server until it is stopped.

    Parameters
    ----------
    port : int
        Where it listens, on 127.0.0.1.
    preset : Path or None
        A distribution, a mechanism.json or a message to begin with.
    browser : bool
        Whether to open the page in a browser.
    """
    require_streamlit()
    for name in list(os.environ):
        if name.startswith("STREAMLIT_"):  # such as a theme or a base path of another app
            del os.environ[name]
    from streamlit.web import cli

    threading.Thread(target=_warm_up, daemon=True).start()
    if browser:
        threading.Thread(target=_open_when_ready, args=(port,), daemon=True).start()
    flags = [f"--{name}={value}" for name, value in settings(port).items()]
    after = [] if preset is None else ["--", str(preset.resolve())]
    cli.main(["run", *flags, str(APP), *after], prog_name="streamlit", standalone_mode=False)


def _warm_up() -> None:
    """Compute the first screen once, so that kernels are compiled before anybody waits for them."""
    from labeldp.explore.answers import Question, curve, designed, headline

    first = Question()
    headline(first)
    curve(first)
    designed(first)


def _open_when_ready(port: int) -> None:
    for _ in range(600):
        try:
            with urllib.request.urlopen(f"http://{ADDRESS}:{port}/_stcore/health", timeout=5):
                break
        except OSError:
            time.sleep(0.1)
    webbrowser.open(f"http://{ADDRESS}:{port}")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((ADDRESS, port))
        except OSError:
            return False
    return True
