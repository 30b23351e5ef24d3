"""Plants bugs one at a time and sees whether the tests find them: `make test-mutants`.

Each bug of bugs.toml goes into a copy of the source. The tests that are likely to find it run first. If they pass, all tests of
`make test` run. A bug counts as found if a test fails, so `make test` must pass before. To plant a few bugs by name, run
`make test-mutants ARGS="label-in-an-error key-in-repr"`.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

HERE = Path(__file__).parent
LEAST_SHARE = 0.9
"""The run fails if a smaller share of the bugs is found."""

NOT_FOUND = "-"
NOT_HERE = "its text is not in this source"


@dataclass(frozen=True)
class Bug:
    name: str
    file: str
    old: str
    new: str
    tests: list[str]

    def fits(self, source: Path) -> bool:
        """Whether the bug can be planted: its file is there, and holds the old text exactly once."""
        file = source / "labeldp" / self.file
        return file.is_file() and file.read_text().count(self.old) == 1

    def plant(self, source: Path) -> None:
        file = source / "labeldp" / self.file
        text = file.read_text()
        file.write_text(text.replace(self.old, self.new))
        if re.search("import.*(numba|compiled)|from.*(numba|compiled) import", text):
            # numba looks for changes in a function's own file only, and functions are inlined across files
            for stored in (*file.parent.glob("__pycache__/*.nbi"), *file.parent.glob("__pycache__/*.nbc")):
                stored.unlink()


def all_bugs() -> list[Bug]:
    return [Bug(name, **fields) for name, fields in tomllib.loads((HERE / "bugs.toml").read_text()).items()]


def main() -> int:
    asked = _asked()
    bugs = [bug for bug in all_bugs() if not asked.bugs or bug.name in asked.bugs]
    if unknown := set(asked.bugs) - {bug.name for bug in bugs}:
        sys.exit(f"bugs.toml has no bug {', '.join(sorted(unknown))}")
    suite = asked.suite.resolve()
    print(f"{'bug':45} {'time':>7}  found by")
    with ThreadPoolExecutor(asked.jobs) as pool:
        answers = list(pool.map(lambda bug: _try(bug, suite, whole=False), bugs))
    if not asked.first:  # one after the other: these runs use all cores
        tried = zip(bugs, answers, strict=True)
        answers = [_try(bug, suite, whole=True) if found == NOT_FOUND else found for bug, found in tried]
    planted = [found for found in answers if found != NOT_HERE]
    found = sum(answer != NOT_FOUND for answer in planted)
    print(f"found {found} of {len(planted)}")
    return 0 if found >= LEAST_SHARE * len(planted) else 1


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bugs", nargs="*", metavar="BUG", help="names of bugs; all by default")
    parser.add_argument("--suite", type=Path, default=HERE.parents[1], help="use source and tests of another checkout")
    parser.add_argument("--first", action="store_true", help="run only the tests that are likely to find a bug")
    parser.add_argument("--jobs", type=int, default=2, help="how many processes to use")
    return parser.parse_args()


def _try(bug: Bug, suite: Path, *, whole: bool) -> str:
    """The test that finds a bug, or `NOT_FOUND`. Prints a line of the table."""
    started = time.monotonic()
    with TemporaryDirectory() as folder:
        source = Path(shutil.copytree(suite / "src", Path(folder) / "src"))  # compiled code too, with its times
        if not bug.fits(source):
            found = NOT_HERE
        else:
            bug.plant(source)
            tests = [] if whole else [f"tests/{test}" for test in bug.tests if (suite / "tests" / test).exists()]
            found = _failed_test(suite, source, tests, jobs=2 if whole else 0) or NOT_FOUND
    print(f"{bug.name:45} {time.monotonic() - started:5.0f} s  {found}", flush=True)
    return found


def _failed_test(suite: Path, source: Path, tests: list[str], *, jobs: int) -> str | None:
    """The first test that fails on this source, or None if all pass."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--tb=no", "-p", "no:cacheprovider", "-n", str(jobs)]
    environment = os.environ | {"PYTHONPATH": str(source)}
    command += ["--dist", "loadfile", *tests]
    done = subprocess.run(command, cwd=suite, env=environment, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return None
    failed = re.search(r"^(?:FAILED|ERROR) (?:tests/)?(.+?)(?: - |$)", done.stdout, re.MULTILINE)
    if failed is None and done.returncode != 1:
        sys.exit(f"pytest could not run: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return failed[1] if failed else "a test"


if __name__ == "__main__":
    sys.exit(main())
