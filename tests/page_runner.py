"""Runs a page of the documentation as a reader would type it: its Python examples and its commands, in order, in one folder.

- A `python` block runs in the page's namespace. Text after `print(...)  # `, and a plain block directly after the example, is
  what it prints.
- A `console` block runs line by line. If it has lines that start with `$ `, these are the commands, and the other lines are
  their output; `# exit code 2` at the end of a command says how it ends. Output is compared in its words: numbers and digests
  may differ, because noise is drawn anew.
- `...` in shown output stands for anything.
- `<!-- run first:` with Python code, up to `-->`, prepares what a reader has already: files, a received
  message. In it, `shell("labeldp …")` runs a command.
- `<!-- not run: the reason -->` on the line before a block leaves it out.

`labeldp` runs in this process, which saves the start, unless it starts Spark; everything else runs in bash. Commands that cannot run inside a test are
in `ELSEWHERE`, with the place where they do.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path

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
    """Runs steps in the current folder, in one namespace."""

    def __init__(self, name):
        self.name = name
        self.names = {"__name__": "example", "print": self._record}
        self.printed = []

    def run(self, text):
        """Run a whole page. Fails at the first step that does not do what the page says."""
        end = -1
        for step in steps(text):
            if not step.runs:
                continue
            if step.kind in ("python", "hidden"):
                self.printed.clear()
                self.names["shell"] = shell if step.kind == "hidden" else None
                exec(compile(step.text, self.name, "exec"), self.names)
                for number, line in enumerate(step.text.splitlines(), 1):
                    if shown := re.match(r"print\(.*\)  # (.+)", line):
                        assert_shows(shown[1], dict(self.printed)[number])
                end = step.end if step.kind == "python" else -1
            elif step.kind == "console":
                for command in commands(step.text):
                    self.type(command)
            elif step.kind == "" and text[end : step.start].isspace():  # directly after an example: its output
                assert_shows(step.text.strip("\n"), "\n".join(text for _, text in self.printed))

    def type(self, command):
        """Run one command, and compare its exit code and its words with the page's."""
        if any(command.line.startswith(start) for start in ELSEWHERE):
            return
        code, printed = run_command(command.line)
        assert code == command.exit_code, f"{self.name}: {command.line}\nends with {code}:\n{printed}"
        if command.shown:
            assert_same_words(command.shown, printed, f"{self.name}: {command.line}")

    def _record(self, *values):
        self.printed.append((sys._getframe(1).f_lineno, " ".join(str(value) for value in values)))


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


def assert_shows(shown, printed):
    pattern = re.escape(shown).replace(re.escape("..."), ".*")
    assert re.fullmatch(pattern, printed, re.DOTALL), f"the page shows {shown!r}, printed is {printed!r}"


def assert_same_words(shown, printed, where):
    pattern = re.escape(words(shown)).replace(re.escape("..."), ".*")
    assert re.fullmatch(pattern, words(printed), re.DOTALL), f"{where}\nshows:\n{shown}\n\nprints:\n{printed}"


def words(text):
    """The text with every number and digest as `#`, without lines and bars of tables, its words one space apart."""
    text = re.sub(r"[─━│┃┏┓┗┛┡┩┳┻╇╈└┘┴┬├┤┼╸╺█▏▎▍▌▋▊▉]", " ", text)
    text = re.sub(r"\b(?=[0-9a-f]*\d)[0-9a-f]{12,}\b", "#", text)
    text = re.sub(r"[-−+]?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?", "#", text)
    return " ".join(text.split())
