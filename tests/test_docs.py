"""The pages say what is true: examples and commands run and print what they show, and names, files and links exist.

`page_runner.py` says how a page is run, and how a block is left out.
"""

from __future__ import annotations

import ast
import re
import shlex
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
from typer.main import get_command

from labeldp.cli import app
from page_runner import BLOCK, PageRunner, steps
from page_runner import commands as typed_commands
from public_names import is_public

ROOT = Path(__file__).resolve().parents[1]
GENERATED = {
    "_build",
    "pictures",
    "command",
    "generated",
    "messages.md",
}  # by a build of the site, which may have run here before
GUIDES = [
    ROOT / "README.md",
    *sorted(path for path in (ROOT / "docs").rglob("*.md") if not GENERATED.intersection(path.parts)),
]
PAGES = [*GUIDES, *sorted(path for path in ROOT.glob("*.md") if path not in GUIDES)]


def text_of(page):
    return page.read_text(encoding="utf-8")


def prose(page):
    """The page without its blocks, and without the names in the first column of a table of moved modules."""
    return re.sub(r"^\| `labeldp[^|]*\|", "|", BLOCK.sub("", text_of(page)), flags=re.MULTILINE)


def blocks(page, *kinds):
    return [step for step in steps(text_of(page)) if step.kind in kinds]


def code_spans(page):
    return re.findall(r"`([^`\n]+(?:\n[^`\n]+)?)`", prose(page))


def named(pages):
    return pytest.mark.parametrize("page", pages, ids=lambda page: page.relative_to(ROOT).as_posix())


def needs_spark(page):
    return any(step.runs and re.search("spark", step.text) for step in blocks(page, "python", "console", "hidden"))


RUN = [page for page in PAGES if any(step.runs for step in blocks(page, "python", "console"))]


@pytest.mark.pages
@named([page for page in RUN if not needs_spark(page)])
def test_a_page_runs_as_written_and_prints_what_it_shows(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    PageRunner(page.name).run(text_of(page))


@pytest.mark.pages
@named([page for page in RUN if needs_spark(page)])
def test_a_page_that_needs_spark_runs_as_written(page, spark, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    hadoop = spark._jvm.org.apache.hadoop.fs  # Java started in another folder, from which it would read relative paths
    files = hadoop.FileSystem.get(spark._jsc.hadoopConfiguration())
    files.setWorkingDirectory(hadoop.Path(str(tmp_path)))
    PageRunner(page.name).run(text_of(page))


@named([page for page in GUIDES if blocks(page, "python")])
def test_examples_import_documented_names_only(page):
    for step in blocks(page, "python"):
        for statement in ast.walk(ast.parse(step.text)):
            if isinstance(statement, ast.ImportFrom) and str(statement.module).startswith("labeldp"):
                wrong = [alias.name for alias in statement.names if not is_public(statement.module, alias.name)]
                assert not wrong, f"line {statement.lineno}"


def typed(page):
    """Every command of the console blocks, as text."""
    return [command.line for step in blocks(page, "console") for command in typed_commands(step.text)]


def commands(page):
    """Every `labeldp` command of the blocks and of the prose, as words."""
    plain = [line.strip() for step in blocks(page, "") for line in step.text.replace("\\\n", " ").splitlines()]
    shown = [*typed(page), *plain, *(" ".join(span.split()) for span in code_spans(page))]
    return [shlex.split(line, comments=True) for line in shown if re.match(r"labeldp [a-z]", line)]


@pytest.fixture(scope="module")
def command_line():
    return get_command(app)


@named(PAGES)
def test_every_command_and_option_exists(page, command_line):
    for words in commands(page):
        command, rest = command_line, words[1:]
        while hasattr(command, "commands") and rest:
            assert rest[0] in command.commands, " ".join(words)
            command = command.commands[rest.pop(0)]
        known = {"--help"} | {option for parameter in command.params for option in parameter.opts}
        assert {word for word in rest if word.startswith("--")} <= known, " ".join(words)


@named(PAGES)
def test_every_benchmark_and_its_options_exist(page):
    for script, options in re.findall(r"python\s+(benchmarks/\w+\.py)([^`#]*)", text_of(page)):
        source = (ROOT / script).read_text(encoding="utf-8")
        for option in re.findall(r"--[a-z-]+", options):
            assert f'"{option}"' in source, f"{script} {option}"


@named(PAGES)
def test_commands_that_do_not_run_here_name_things_that_exist(page):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    for line in typed(page):
        program, *rest = shlex.split(line, comments=True)
        if program == "make":
            assert {word for word in rest if "=" not in word and not word.startswith("-")} <= targets, line
        for named in re.findall(r"labeldp\[([\w,-]+)\]", line):
            assert set(named.split(",")) <= set(extras), line


@named(GUIDES)
def test_every_file_that_is_named_exists(page):
    for path in re.findall(r"`((?:benchmarks|docs|src|tests)/[\w./-]+)`", prose(page)):
        assert (ROOT / path).exists(), path


@named(PAGES)
def test_every_dotted_name_exists(page):
    for span in code_spans(page):
        for name in re.findall(r"(?<![\w./-])labeldp(?:\.(?!My)[A-Za-z_]\w*)+", span):  # MyLoss is the reader's
            module, rest = name, []
            while module not in sys.modules:
                try:
                    import_module(module)
                except ModuleNotFoundError:
                    module, _, last = module.rpartition(".")
                    rest.insert(0, last)
            found = sys.modules[module]
            for attribute in rest:
                assert hasattr(found, attribute), f"{name}: {module} has no {'.'.join(rest)}"
                found = getattr(found, attribute)


def anchors(page):
    """The anchors that GitHub makes of the headings."""
    headings = re.findall(r"^#+ (.+)$", BLOCK.sub("", text_of(page)), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@named(PAGES)
def test_links_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)]+)\)", prose(page)):
        if "://" not in link:
            path, _, anchor = link.partition("#")
            target = page.parent / path if path else page
            assert target.exists(), link
            assert not anchor or anchor in anchors(target), link


@named(PAGES)
def test_every_picture_is_small_and_says_what_it_shows(page):
    for alt, path in re.findall(r"!\[([^\]]*)\]\(([^)]+)\)", text_of(page)):
        assert len(alt.split()) > 15, f"{path}: tell people who do not see it what it shows"
        assert (page.parent / path).stat().st_size < 100_000, path
        if path.endswith(".svg"):
            text = (page.parent / path).read_text(encoding="utf-8")
            assert ' role="img" aria-label="' in text
            assert "prefers-color-scheme: dark" in text
    assert not re.search(r"<img(?![^>]* alt=)", text_of(page))


@named([page for page in GUIDES if page.parent != ROOT and page != ROOT / "docs" / "index.md"])
def test_every_page_is_in_the_list_of_the_home_page(page):
    home = text_of(ROOT / "docs" / "index.md")
    listed = "".join(re.findall(r"^```\{toctree\}\n(.*?)^```$", home, re.MULTILINE | re.DOTALL)).split()
    assert page.relative_to(ROOT / "docs").with_suffix("").as_posix() in listed


def test_the_tests_that_security_names_exist():
    """SECURITY.md names the test of each promise. A test that was renamed would leave a promise without one."""
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", (ROOT / "SECURITY.md").read_text(encoding="utf-8"))
    assert len(named) > 20
    for file, test in named:
        assert (ROOT / file).is_file(), file
        assert not test or re.search(rf"^def {test}\(", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE), test
