"""The pages say what is true: examples run and print what they show, and commands, names, files and links exist.

A Python block that needs a large file or another machine is left out by a comment on the line before it:
`<!-- not run: the reason -->`. Text after `print(...)  # `, and a plain block directly after an example, is the output;
`...` in it stands for anything.
"""

from __future__ import annotations

import ast
import re
import shlex
import sys
from importlib import import_module
from pathlib import Path

import pytest
from typer.main import get_command

from labeldp.cli import app

ROOT = Path(__file__).resolve().parents[1]
GUIDES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = [*GUIDES, *sorted(path for path in ROOT.glob("*.md") if path not in GUIDES)]
DOCUMENTED = {
    "labeldp",
    "labeldp.audit",
    "labeldp.losses",
    "labeldp.paper.data",
    "labeldp.paper.network",
    "labeldp.plots",
}
BLOCK = re.compile(
    r"(?P<not_run><!-- not run: [^\n]+ -->\n)?^```(?P<kind>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)


def text_of(page):
    return page.read_text(encoding="utf-8")


def prose(page):
    """The page without its blocks, and without the names in the first column of a table of moved modules."""
    return re.sub(r"^\| `labeldp[^|]*\|", "|", BLOCK.sub("", text_of(page)), flags=re.MULTILINE)


def blocks(page, *kinds):
    text = text_of(page)
    for found in BLOCK.finditer(text):
        if found["kind"] in kinds:
            yield found, "\n" * text.count("\n", 0, found.start("text")) + found["text"]


def code_spans(page):
    return re.findall(r"`([^`\n]+(?:\n[^`\n]+)?)`", prose(page))


def named(pages):
    return pytest.mark.parametrize("page", pages, ids=lambda page: page.relative_to(ROOT).as_posix())


def with_python(pages):
    return named([page for page in pages if any(blocks(page, "python"))])


@with_python(GUIDES)
def test_examples_run_and_print_what_they_show(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    printed = []

    def record(*values):
        printed.append((sys._getframe(1).f_lineno, " ".join(str(value) for value in values)))

    names = {"__name__": "example", "print": record}
    end = -1
    for found, padded in blocks(page, "python", ""):
        if found["kind"] == "python" and not found["not_run"]:
            printed.clear()
            exec(compile(padded, page.name, "exec"), names)
            for number, line in enumerate(padded.splitlines(), 1):
                if shown := re.match(r"print\(.*\)  # (.+)", line):
                    assert_shows(shown[1], dict(printed)[number])
            end = found.end()
        elif text_of(page)[end : found.start()].isspace():  # directly after an example: its output
            assert_shows(found["text"].rstrip(), "\n".join(text for _, text in printed))


def assert_shows(shown, printed):
    pattern = re.escape(shown).replace(re.escape("..."), ".*")
    assert re.fullmatch(pattern, printed, re.DOTALL), f"the page shows {shown!r}, printed is {printed!r}"


@with_python(GUIDES)
def test_examples_import_documented_names_only(page):
    for _, padded in blocks(page, "python"):
        for statement in ast.walk(ast.parse(padded)):
            if isinstance(statement, ast.ImportFrom) and str(statement.module).startswith("labeldp"):
                assert statement.module in DOCUMENTED, f"line {statement.lineno}"
                public = import_module(statement.module).__all__
                assert {alias.name for alias in statement.names} <= set(public), f"line {statement.lineno}"


def commands(page):
    """Every `labeldp` command of the console blocks and of the prose, as words."""
    lines = "".join(found["text"] for found, _ in blocks(page, "console", "")).replace("\\\n", " ").splitlines()
    shown = [line.removeprefix("$ ") for line in lines] + [" ".join(span.split()) for span in code_spans(page)]
    return [shlex.split(line, comments=True) for line in shown if re.match(r"labeldp [a-z]", line)]


@named(PAGES)
def test_every_command_and_option_exists(page):
    for words in commands(page):
        command, rest = get_command(app), words[1:]
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


@named([page for page in GUIDES if page.parent != ROOT])
def test_a_page_says_first_whom_it_is_for_and_what_they_will_know(page):
    title, blank, first = text_of(page).splitlines()[:3]
    assert title.startswith("# ")
    assert not blank
    assert first.startswith("For ")
    assert "After this page you" in text_of(page)[:600]


def test_the_index_lists_every_page():
    listed = set(re.findall(r"\]\(([\w/-]+\.md)", text_of(ROOT / "docs" / "index.md")))
    pages = {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")}
    assert listed == pages - {"index.md"}


def test_the_tests_that_security_names_exist():
    """SECURITY.md names the test of each promise. A test that was renamed would leave a promise without one."""
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", (ROOT / "SECURITY.md").read_text(encoding="utf-8"))
    assert len(named) > 20
    for file, test in named:
        assert (ROOT / file).is_file(), file
        assert not test or re.search(rf"^def {test}\(", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE), test
