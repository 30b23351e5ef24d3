"""Python environments of the peers, and worker processes in them.

Peers that clash with our versions get an environment each, `benchmarks/.peers/NAME`, made when it is first needed from
`benchmarks/peers/NAME.txt` (one requirement a line, installed in this order; the comments say why). A changed file makes a new one.

A worker is a script in `benchmarks/peers/` that answers requests line by line (`peers/serving.py`). It stays alive between requests, so
that rounds of several peers can alternate. Arrays travel as .npz files.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Self

import numpy as np

HERE = Path(__file__).resolve().parents[1]
SPECIFICATIONS = HERE / "peers"
PIP = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")


class PeerUnavailableError(RuntimeError):
    """There is no environment for a peer, with the reason in a line."""


def environments() -> Path:
    """The folder of all environments; `LABELDP_PEERS` names another one."""
    return Path(os.environ.get("LABELDP_PEERS") or HERE / ".peers")


def requirements(name: str) -> list[str]:
    """What is installed for a peer, in order, without the comments."""
    text = (SPECIFICATIONS / f"{name}.txt").read_text(encoding="utf-8")
    return [line for line in (line.split("#")[0].strip() for line in text.splitlines()) if line]


def python_of(name: str) -> Path:
    """The Python of a peer, installed if it is not there yet."""
    wanted = requirements(name)
    stamp = hashlib.sha256("\n".join([sys.version, *wanted]).encode()).hexdigest()
    folder = environments() / name
    python, done = folder / "bin" / "python", folder / "installed"
    if done.exists() and done.read_text(encoding="utf-8") == stamp:
        return python
    print(f"making the environment of {name}: {', '.join(wanted)}", file=sys.stderr, flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    try:
        _run([sys.executable, "-m", "venv", str(folder)])
        for requirement in wanted:
            _run([str(python), *PIP, requirement])
    except PeerUnavailableError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise PeerUnavailableError(f"{name} could not be installed: {error}") from None
    done.write_text(stamp, encoding="utf-8")
    return python


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("ERROR")] or lines
        raise PeerUnavailableError(errors[-1] if errors else f"exit code {done.returncode}")


class Worker:
    """A process in a peer's environment that answers requests."""

    def __init__(self, name: str, script: str, *, python: Path | None = None, threads: int = 2) -> None:
        self.name = name
        self._folder = tempfile.TemporaryDirectory(prefix="labeldp-peer-")
        command = [str(python or python_of(name)), str(SPECIFICATIONS / script), self._folder.name]
        environment = os.environ | {"OMP_NUM_THREADS": str(threads), "PYTHONPATH": "", "PYTHONWARNINGS": "ignore"}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, encoding="utf-8"
        )
        self._number = 0

    def ask(self, job: str, arrays: dict[str, Any] | None = None, **given: Any) -> dict[str, Any]:
        """What the worker's job returns. Arrays that it returns are in the answer, too."""
        path = None
        if arrays:
            self._number += 1
            path = Path(self._folder.name) / f"given-{self._number}.npz"
            np.savez(path, **arrays)
        request = {"job": job, "given": given, "arrays": str(path) if path else None}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if path:
            path.unlink(missing_ok=True)
        if not line:
            raise PeerUnavailableError(f"{self.name} ended without an answer (exit code {self._process.poll()})")
        answer = json.loads(line)
        if "error" in answer:
            raise PeerUnavailableError(f"{self.name}: {answer['error']}")
        found = dict(answer["facts"])
        if answer["arrays"]:
            with np.load(answer["arrays"]) as kept:
                found |= {key: kept[key] for key in kept.files}
            Path(answer["arrays"]).unlink()
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._folder.cleanup()
