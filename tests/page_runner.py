"""Runs a page of the documentation as a reader would type it: its Python examples and its commands, in order, in one folder.

- A `python` block runs in the page's namespace. Text after `print(...)  # `, and a plain block directly after the example, is
  what it prints.
- A `console` block runs line by line. If it has lines that start with `$ `, these are the commands, and the other lines are
  their output; `# exit code 2` at the end of a command is its exit code.
- Draws are seeded with the page's name, so shown output is compared character by character. Only digests may differ, and
  numbers by two percent: other processors round the last digits of a design differently.
- `...` in shown output matches anything.
- `<!-- run first:` with Python code, up to `-->`, prepares what a reader has already: files, a received
  message. In it, `shell("labeldp …")` runs a command.
- `<!-- not run: the reason -->` on the line before a block leaves it out.

`labeldp` runs in this process, which saves the start, unless it starts Spark; everything else runs in bash. Commands that cannot run inside a test are
in `ELSEWHERE`, with the place where they do.

`python tests/page_runner.py docs/guides/ledger-and-keys.md …` runs pages and notebooks and writes what they print into them.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
import warnings
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from seeded_words import seed_of, seeded_draws

ELSEWHERE = {
    "make ": "its targets are checked to exist; CI runs `make check`, `make test` and `make docs`",
    "pip install ": "test_packaging.py installs the wheel, and extras that are named are checked to exist",
    "python benchmarks/": "takes minutes; the script and its options are checked to exist",
}
BLOCK = re.compile(
    r"(?P<not_run><!-- not run: [^\n]+ -->\n)?^(?P<indent> *)```(?P<kind>\w*)\n(?P<text>.*?)^ *```$"
    r"|^<!-- run first:\n(?P<hidden>.*?)^-->$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Step:
    """One block of a page: what it is, where it starts and what it says. Its text is padded to keep line numbers."""

    kind: str
    text: str
    start: int
    end: int
    runs: bool


@dataclass(frozen=True)
class Command:
    line: str
    exit_code: int
    shown: str
    """What the page shows below it, nothing if the page shows no output."""


def steps(text):
    """The blocks of a page in order."""
    for found in BLOCK.finditer(text):
        hidden = found["hidden"] is not None
        group = "hidden" if hidden else "text"
        padding = "\n" * text.count("\n", 0, found.start(group))
        body = found[group]
        if found["indent"]:
            body = "".join(line.removeprefix(found["indent"]) for line in body.splitlines(keepends=True))
        yield Step(
            "hidden" if hidden else found["kind"], padding + body, found.start(), found.end(), not found["not_run"]
        )


def commands(block):
    """The commands of a console block, each with what the page shows below it."""
    lines = block.strip("\n").replace("\\\n", " ").splitlines()
    typed = any(line.startswith("$ ") for line in lines)
    found = []
    for line in lines:
        if not typed or line.startswith("$ "):
            command = line.removeprefix("$ ").strip()
            if command and not command.startswith("#"):
                ending = re.search(r"# exit code (\d+)\s*$", command)
                found.append([command, int(ending[1]) if ending else 0, []])
        elif found:
            found[-1][2].append(line)
    return [Command(command, code, "\n".join(shown).strip("\n")) for command, code, shown in found]


class PageRunner:
    """Runs a page in the current folder, in one namespace."""

    def __init__(self, name):
        self.name = name
        self.names = {"__name__": "example", "print": self._record}
        self.printed = []

    def run(self, text, check=None):
        """Run a whole page and check what each step prints. Fails at the first step that does not do what the page shows."""
        check, end = check or assert_shows, -1
        with seeded_run(self.name):
            for step in steps(text):
                if not step.runs:
                    continue
                if step.kind in ("python", "hidden"):
                    self.printed.clear()
                    self.names["shell"] = shell if step.kind == "hidden" else None
                    exec(compile(step.text, self.name, "exec"), self.names)
                    for number, line in enumerate(step.text.splitlines(), 1):
                        if shown := re.match(r"print\(.*\)  # (.+)", line):
                            check(shown[1], dict(self.printed)[number], f"{self.name}, line {number}")
                    end = step.end if step.kind == "python" else -1
                elif step.kind == "console":
                    for command in commands(step.text):
                        self.type(command, check)
                elif step.kind == "" and text[end : step.start].isspace():  # directly after an example: its output
                    check(step.text.strip("\n"), "\n".join(text for _, text in self.printed), self.name)

    def type(self, command, check):
        """Run one command, and compare its exit code and its output with the page's."""
        if any(command.line.startswith(start) for start in ELSEWHERE):
            return
        code, printed = run_command(command.line)
        assert code == command.exit_code, f"{self.name}: {command.line}\nends with {code}:\n{printed}"
        if command.shown:
            check(command.shown, printed.strip("\n"), f"{self.name}: {command.line}")

    def _record(self, *values):
        self.printed.append((sys._getframe(1).f_lineno, " ".join(str(value) for value in values)))


@contextlib.contextmanager
def seeded_run(name):
    """Seed this process and its children, and stop the ledger's clock."""
    seed = seed_of(name)
    moment = mock.patch("labeldp.release.ledger._now", return_value="2026-01-02T03:04:05+00:00")
    with seeded_draws(seed, any_processor=True), mock.patch.dict(os.environ, child_environment(seed)), moment:
        yield


def child_environment(seed):
    here = Path(__file__).parent
    path = [str(here / "children"), str(here), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {"LABELDP_TEST_SEED": str(seed), "PYTHONPATH": os.pathsep.join(path), "COLUMNS": "110"}


def run_command(line):
    """The exit code of a command, and all that it printed, in order."""
    if re.match(r"labeldp(?!.*--engine spark)(\s|$)", line) and not re.search(
        r"[|<>;&`]|\$\(", re.sub(r"'[^']*'|\"[^\"]*\"|#.*", "", line)
    ):
        return run_labeldp(shlex.split(line, comments=True)[1:])
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", line],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
        timeout=300,
        check=False,
        text=True,
    )
    return done.returncode, done.stdout


def shell(line):
    """What hidden code prepares with a command. The command must succeed."""
    code, printed = run_command(line)
    assert code == 0, f"{line}\nends with {code}:\n{printed}"


def run_labeldp(words):
    """The `labeldp` script in this process: its exit code and all that it printed."""
    from labeldp.cli import main

    typed, sys.argv = sys.argv, ["labeldp", *words]
    printed = io.StringIO()
    code = 0
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed), warnings.catch_warnings():
            warnings.simplefilter("default")
            try:
                main()
            except SystemExit as stop:
                code = stop.code or 0
    finally:
        sys.argv = typed
    return code, printed.getvalue()


NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?")
DIGEST = re.compile(r"\b(?=[0-9a-f]*\d)[0-9a-f]{12,}\b")


def assert_shows(shown, printed, where):
    """Fail unless `printed` is `shown`, with anything for `...`, other digests, and numbers that differ by two percent."""
    shown, printed = (DIGEST.sub("#", trimmed(text)) for text in (shown, printed))
    parts = re.split(rf"({NUMBER.pattern}|\.\.\.)", shown)
    numbers = [part for part in parts if NUMBER.fullmatch(part)]
    pattern = "".join(
        f"({NUMBER.pattern})" if NUMBER.fullmatch(part) else ".*" if part == "..." else re.escape(part)
        for part in parts
    )
    found = re.fullmatch(pattern, printed, re.DOTALL)
    assert found, f"{where}\nshows:\n{shown}\n\nprints:\n{printed}"
    for one, other in zip(numbers, found.groups(), strict=True):
        a, b = (float(number.replace(",", "")) for number in (one, other))
        assert abs(a - b) <= 0.02 * abs(a) + 0.011, f"{where}\nshows {one}, prints {other}:\n{printed}"


def trimmed(text):
    return re.sub(r" +$", "", text, flags=re.MULTILINE).strip("\n")


def words(text):
    """Return the text with every number and digest as `#` and single spaces."""
    return " ".join(NUMBER.sub("#", DIGEST.sub("#", text)).split())


def updated(shown, printed):
    """Return `shown` with each line as it is printed now. Lines that match nothing end up as they are, with a warning."""
    lines, rest = [], printed.splitlines()
    if "..." not in shown:
        return printed
    for line in shown.splitlines():
        pattern = re.escape(words(line)).replace(re.escape("..."), ".*")
        found = next((place for place, other in enumerate(rest) if re.fullmatch(pattern, words(other))), None)
        if line.strip() == "..." or found is None:
            lines.append(line)
            if line.strip() != "...":
                print(f"no printed line matches {line!r}")
        else:
            lines.append(line if "..." in line else rest[found].rstrip())
            rest = rest[found + 1 :]
    return "\n".join(lines)


def write(page):
    """Run a page or a notebook and store what it prints."""
    if page.suffix == ".ipynb":
        import nbformat

        from test_notebooks import execute

        notebook = nbformat.read(page, as_version=nbformat.NO_CONVERT)
        metadata = deepcopy(notebook.metadata)  # an execution adds facts about this machine
        with tempfile.TemporaryDirectory() as folder:
            execute(notebook, page.stem, Path(folder))
        notebook.metadata = metadata
        nbformat.write(notebook, page)
        return
    text, changes = page.read_text(encoding="utf-8"), []

    def note(shown, printed, where):
        try:
            assert_shows(shown, printed, where)
            same = "..." in shown or shown == printed
        except AssertionError:
            same = False
        if not same:
            changes.append((shown, trimmed(updated(shown, printed))))

    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            PageRunner(page.name).run(text, note)
        finally:
            os.chdir(before)
    for shown, printed in changes:
        assert text.count(shown) >= 1, shown
        text = text.replace(shown, printed, 1)
    page.write_text(text, encoding="utf-8")
    print(f"{page}: {len(changes)} outputs changed")


if __name__ == "__main__":
    import conftest  # noqa: F401 - sets the environment of tests

    arguments = argparse.ArgumentParser(description=write.__doc__)
    arguments.add_argument("pages", type=Path, nargs="+")
    for each in arguments.parse_args().pages:
        write(each.resolve())
