"""How the page is started: for this machine only, quietly, and with words where it cannot be."""

from __future__ import annotations

import contextlib
import http.client
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from labeldp.explore import server
from labeldp.explore.server import APP, free_port, settings


@pytest.fixture
def run(monkeypatch, capsys):
    from labeldp.cli import main

    def run(*arguments):
        monkeypatch.setattr("sys.argv", ["labeldp", "explore", *map(str, arguments)])
        try:
            code = main() or 0
        except SystemExit as stop:
            code = stop.code or 0
        return code, capsys.readouterr()

    return run


def test_importing_labeldp_and_its_command_line_does_not_import_streamlit():
    code = "import sys, labeldp, labeldp.cli, labeldp.explore.server; print([n for n in ('streamlit', 'altair', 'pandas') if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_computing_part_needs_no_streamlit():
    shown = {"__init__", "page", "sidebar", "charts"}
    names = {path.stem for path in Path(server.__file__).parent.glob("*.py")} - shown
    modules = ", ".join(f"labeldp.explore.{name}" for name in sorted(names))
    done = subprocess.run(
        [sys.executable, "-c", f"import sys, {modules}; print('streamlit' in sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "False"


def test_a_missing_extra_is_named(run, monkeypatch):
    monkeypatch.setattr(server, "find_spec", lambda name: None)
    code, printed = run()
    assert code == 2
    assert "pip install 'labeldp[explore]'" in printed.err


def test_a_port_in_use_is_refused_and_otherwise_passed_over(run):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, printed = run("--port", port, "--no-browser")
        assert code == 2
        assert f"port {port} is in use" in printed.err
    assert free_port(None) in range(8501, 8600)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--prior", "nowhere.csv"), "there is no file"),
        (("--message", "nowhere"), "nowhere"),
        (("--prior", "a.csv", "--message", "b"), "give one thing"),
        (("--port", "0"), "--port"),
    ],
)
def test_wrong_beginnings_are_refused_before_the_server_starts(run, arguments, why):
    code, printed = run(*arguments)
    assert code == 2
    assert why in printed.err


def test_the_server_listens_here_only_and_sends_no_statistics():
    found = settings(8700)
    assert found["server.address"] == "127.0.0.1"
    assert found["browser.gatherUsageStats"] == "false"
    assert found["server.enableXsrfProtection"] == found["server.enableCORS"] == "true"


def test_every_setting_is_one_that_streamlit_knows():
    config = pytest.importorskip("streamlit.config")
    known = config.get_config_options()
    for name, value in settings(8700).items():
        assert name in known
        assert known[name].type in {str, bool, int}
        assert value.lower() in {"true", "false"} or known[name].type is not bool


def test_no_other_module_is_in_the_folder_of_the_application():
    """Streamlit puts that folder first on the import path, where another file could hide a module."""
    assert {path.name for path in APP.parent.glob("*.py")} == {APP.name, "labeldp_explore_page.py", "__init__.py"}


UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
}


@pytest.fixture
def answers(tmp_path):
    """The status with which a started server answers a request."""
    pytest.importorskip("streamlit", reason="the server needs the extra explore: pip install 'labeldp[explore]'")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]

    def status(path, host, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        with contextlib.closing(connection):
            address = host.format(port=port)
            connection.request("GET", path, headers={"Host": address, "Origin": f"http://{address}", **headers})
            return connection.getresponse().status

    arguments = [sys.executable, "-m", "labeldp", "explore", "--no-browser", "--port", str(port)]
    with (tmp_path / "log").open("wb") as log:
        server = subprocess.Popen(arguments, stdout=log, stderr=subprocess.STDOUT)
    try:
        for _ in range(600):
            with contextlib.suppress(ConnectionError):
                status("/_stcore/health", "127.0.0.1")
                break
            assert server.poll() is None, (tmp_path / "log").read_text(encoding="utf-8")
            time.sleep(0.1)
        yield status
    finally:
        server.send_signal(signal.SIGINT)
        try:
            server.wait(60)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def test_requests_for_another_host_are_refused_also_on_the_websocket(answers):
    """A page whose domain name was pointed at 127.0.0.1 sends this name as `Host` and as `Origin`."""
    for host in ("127.0.0.1:{port}", "localhost:{port}"):
        assert answers("/", host) == answers("/_stcore/health", host) == 200
        assert answers("/_stcore/stream", host, **UPGRADE) == 101
    for host in ("attacker.example:{port}", "attacker.example", "127.0.0.1.attacker.example:{port}", ""):
        for path, headers in (("/", {}), ("/_stcore/health", {}), ("/_stcore/stream", UPGRADE)):
            assert answers(path, host, **headers) in {400, 403}, (path, host)
