"""Corrupted files make no reader do anything but read or refuse: a small run of `benchmarks/fuzz.py`, which itself is tested too."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from labeldp.errors import InvalidInput

FUZZ = Path(__file__).resolve().parents[1] / "benchmarks" / "fuzz.py"
SOURCE = FUZZ.parents[1] / "src"
CHEAP = "labels,mechanism,sums,message,signed message,signing key,key file,ledger,prior,census,criteo,training log"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs RLIMIT_AS and /proc")


def fuzz(folder, *options):
    """The fuzzer in a process of its own: its exit code and what it printed."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(SOURCE), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, str(FUZZ), "--findings", str(folder / "findings"), "--progress", "0", *map(str, options)]
    run = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    return run.returncode, run.stdout + run.stderr


def executions(printed):
    return int(re.search(r"^all +([\d,]+)", printed, re.MULTILINE)[1].replace(",", ""))


def test_corrupted_files_find_nothing(tmp_path):
    code, printed = fuzz(tmp_path, "--executions", 60, "--seed", 1, "--readers", CHEAP)
    assert code == 0, printed
    assert executions(printed) == 60


@pytest.mark.slow
def test_tens_of_thousands_of_corrupted_files_find_nothing(tmp_path):
    code, printed = fuzz(tmp_path, "--executions", 40_000, "--seed", 2, "--jobs", 2)
    assert code == 0, printed
    assert executions(printed) == 40_000


@pytest.fixture
def judge(monkeypatch, tmp_path):
    """The fuzzer's verdict on what a function does with a folder."""
    monkeypatch.syspath_prepend(str(FUZZ.parent))
    import fuzz as module
    import fuzz_readers

    class Planted(fuzz_readers.Reader):
        name = "planted"

        def make(self):
            yield {"labels.csv": b"id,y\n1,817263549.25\n"}

        def run(self, folder):
            self.does(folder)

    monkeypatch.setattr(fuzz_readers, "READERS", (Planted,))
    monkeypatch.setattr(module, "SECONDS", 0.2)
    fuzzer = module.Fuzzer([], tmp_path)

    def judge(does):
        fuzzer.readers[0].does = does
        return fuzzer.run(fuzzer.readers[0], fuzzer.readers[0].scenes[0]).kind

    return judge


def refuse(words, cause=None):
    raise InvalidInput(words) from cause


def spin(folder):
    while True:
        pass


@pytest.mark.parametrize(
    ("does", "kind"),
    [
        (lambda folder: None, "ok"),
        (lambda folder: refuse("row 0 is bad"), "refused"),
        (lambda folder: int("x"), "violation"),
        (lambda folder: sys.exit(7), "violation"),
        (spin, "violation"),
        (lambda folder: refuse("label 817263549.25"), "violation"),
        (lambda folder: refuse("bad", ValueError("817263549")), "violation"),
        (lambda folder: print("817263549"), "violation"),
        (lambda folder: warnings.warn("divided by zero", RuntimeWarning, stacklevel=1), "violation"),
        (lambda folder: (folder / "log").write_bytes(b"\x00817263549\x00"), "violation"),
        (lambda folder: (folder / "out").mkdir(), "violation"),
    ],
)
def test_the_fuzzer_sees_what_is_planted(judge, does, kind):
    assert judge(does) == kind
