"""Every error and warning that labeldp can raise, read from its source, and the list of them in docs/guides/errors.md.

A message is written as a user could find it: the words that are always the same, with `…` for the rest. The page has one section
for each situation, and says in a comment which modules it is about. `python tests/error_messages.py` writes the lists of the page anew.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "labeldp"
PAGE = ROOT / "docs" / "guides" / "errors.md"

GENERAL = {"ValueError", "OSError", "UserWarning", "Exception"}
"""Classes of Python whose text becomes a part of an error of ours, or that ours derive from."""

SAID_BY = {
    "cli/__init__.py": ["_out_of_memory"],
    "engines/spark/reading.py": ["_reason"],
    "message/manifest.py": ["_unlisted"],
    "paper/data/criteo.py": ["_check", "_explained"],
    "paper/data/reading.py": ["located", "explained"],
    "tables/csv_text.py": ["_explained"],
    "priors/budget_split.py": ["split_budget"],
    "release/batch_checks.py": ["other_ids", "other_copy"],
    "training/scikit_words.py": ["_said"],
    "training/suspects.py": ["_suspicions"],
}
"""Functions that make the words of an error which another one raises: all their sentences count."""

SAID_ELSEWHERE = {
    "audit/measurement.py:require": "the measurement in words, `Measurement.__str__`",
    "central/cells_file.py:read": "the error of `CellColumns`, with the file before it",
    "cli/__init__.py:main": "the error itself, or that of the operating system",
    "cli/audit.py:_mechanism": "the error of the mechanism, with the file before it",
    "cli/console.py:show_warning": "the warning itself",
    "cli/console.py:stoppable": "what the command says about a stopped run",
    "engines/arrow/input_report.py:reported_together": "the sentences of the report in the same file",
    "engines/arrow/spill.py:partitions": "no words: the engine tells which rows have the id",
    "engines/spark/worker.py:run": "the text of a WorkerError, for the driver",
    "engines/spark/reading.py:_readable": "`_reason` in the same file",
    "explore/simulated_prior.py:_simulated": "the error of the prior, put in the page",
    "explore/uploads.py:_from_csv": "the error of `Prior.from_csv`",
    "explore/uploads.py:_from_mechanism": "the error of the mechanism",
    "message/description.py:read_description": "the error of the description, with the file before it",
    "message/manifest.py:check_files": "`_unlisted` in the same file",
    "paper/data/criteo.py:_check": "the sentences in the same function",
    "tables/csv_text.py:read_csv": "`_explained` in the same file",
    "tables/files.py:readable": "`explain_csv_error`, or `reading` of the paper's data",
    "priors/budget_split.py:warn": "`split_budget` in the same file",
    "priors/prior.py:from_csv": "the error of `Prior`, with the file before it",
    "release/apply.py:_place_of_batch": "`other_copy` in batch_checks.py",
    "release/apply.py:_scan_batch": "`other_ids` in batch_checks.py",
    "release/ledger_entries.py:_amount": "the ValueError of ledger_values.py",
    "release/ledger_journal.py:entries": "the error of json_text.py",
    "release/ledger_journal.py:import_rows": "the error of `append`",
    "release/ledger_replay.py:_play": "the ValueErrors of ledger_actions.py",
    "training/scikit_words.py:without_values": "`_said` in the same file",
    "training/stored/kinds.py:is_a": "the name of a part, and the type that stands there",
    "training/stored/model_file.py:from_bytes": "a warning of scikit-learn about its versions",
    "training/stored/parts.py:_object": "the type, or the error of one of its parts",
    "training/suspects.py:warn_of_suspects": "`_suspicions` in the same file",
}
"""Where a message has no words of its own: `module:function`, and where the words come from."""

NOT_FOR_USERS = {
    "catalogue.py:add": "a developer's mistake: two entries of one name",
    "training/stored/kinds.py:add": "a developer's mistake: two entries of one name",
    "sampling/_blake2b.py:keyed_blake2b_96": "the length of a key of our own",
}


@dataclass(frozen=True, order=True)
class Said:
    """One message: the words, where they are, and the class."""

    words: str
    module: str
    line: int
    function: str
    kind: str

    @property
    def place(self):
        return f"{self.module}:{self.function}"

    @property
    def has_words(self):
        return len(re.findall(r"[^\W\d_]{2,}", self.words)) >= 2


@cache
def parsed(module):
    return ast.parse((SOURCE / module).read_text(encoding="utf-8"))


def modules():
    return sorted(path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py"))


@cache
def error_classes():
    """The names of all classes of the source that derive from an exception or a warning, by name."""
    bases = {}
    for module in modules():
        for node in ast.walk(parsed(module)):
            if isinstance(node, ast.ClassDef):
                bases[node.name] = {ast.unparse(base).rpartition(".")[2] for base in node.bases}
    found = {"Exception", "ValueError", "OSError", "UserWarning"}
    while more := {name for name, of in bases.items() if of & found} - found:
        found |= more
    return frozenset(found - GENERAL)


@cache
def constants(module):
    """The texts that a module knows by a name: its own, and those that it imports from another file of labeldp."""
    found = {}
    for node in parsed(module).body:
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("labeldp."):
            file = node.module.replace(".", "/").removeprefix("labeldp/") + ".py"
            theirs = own_constants(file) if (SOURCE / file).exists() else {}
            found |= {name.asname or name.name: theirs[name.name] for name in node.names if name.name in theirs}
    return found | own_constants(module)


@cache
def own_constants(module):
    found = {}
    for node in parsed(module).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            texts = worded(node.value, found)
            if len(texts) == 1 and "…" not in texts[0]:
                found[node.targets[0].id] = texts[0]
    return found


def worded(node, known):
    """What an expression may say: one text for each branch, with `…` for what is not fixed."""
    match node:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.JoinedStr(values=values):
            texts = [""]
            for value in values:
                inner = value.value if isinstance(value, ast.FormattedValue) else value
                more = worded(inner, known) if isinstance(inner, ast.Constant | ast.Name) else ["…"]
                texts = [text + one for text in texts for one in more]
            return texts
        case ast.BinOp(op=ast.Add()):
            return [left + right for left in worded(node.left, known) for right in worded(node.right, known)]
        case ast.IfExp():
            return [*worded(node.body, known), *worded(node.orelse, known)]
        case ast.Name(id=name) if name in known:
            return [known[name]]
        case ast.Subscript(value=value):
            return worded(value, known)
    return ["…"]


def functions(node, name="module"):
    """Every node below, with the name of the function that it is in."""
    for child in ast.iter_child_nodes(node):
        inside = child.name if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) else name
        yield inside, child
        yield from functions(child, inside)


def _said_in(module):
    known, classes, speaking = constants(module), error_classes(), SAID_BY.get(module, [])
    owner = {}
    for node in ast.walk(parsed(module)):
        if isinstance(node, ast.ClassDef) and node.name in classes:
            owner |= {id(child): node.name for child in ast.walk(node)}
    inner = {
        id(child)
        for node in ast.walk(parsed(module))
        if isinstance(node, ast.JoinedStr | ast.BinOp | ast.Compare) or _is_no_sentence(node)
        for child in ast.walk(node)
        if child is not node
    }
    for function, node in functions(parsed(module)):
        match node:
            case ast.Raise(exc=ast.Call(func=ast.Name(id="ValueError" | "OSError" as kind), args=[first, *_])):
                yield function, node, kind, worded(first, known)
            case ast.Call(func=ast.Attribute(attr="__init__"), args=args) if id(node) in owner and args:
                yield function, node, owner[id(node)], worded(args[-1], known)
            case ast.Call(func=ast.Attribute(attr="warn", value=ast.Name(id="warnings")), args=[first, *rest]):
                yield function, node, ast.unparse(rest[0]) if rest else "UserWarning", worded(first, known)
            case ast.Call(func=ast.Name(id="expect"), args=[_, kind, name, how]):
                texts = worded(name, known)
                yield (
                    function,
                    node,
                    "InvalidInput",
                    [
                        f"{text} must be a {ast.unparse(kind)}, got …: {end}"
                        for text in texts
                        for end in worded(how, known)
                    ],
                )
            case ast.Call(func=ast.Name(id="expect_path"), args=[_, name, how]):
                yield (
                    function,
                    node,
                    "InvalidInput",
                    [
                        f"{text} must be a path, as text or Path, got …: {end}"
                        for text in worded(name, known)
                        for end in worded(how, known)
                    ],
                )
            case ast.Call(func=ast.Name(id=kind), args=[first, *_]) if kind in classes and not _has_own_words(kind):
                yield function, node, kind, worded(first, known)
            case ast.Call(func=ast.Name(id="note" | "complain"), args=[first]):
                yield function, node, "note", worded(first, known)
            case ast.Constant() | ast.JoinedStr() | ast.BinOp() if function in speaking and id(node) not in inner:
                yield function, node, "text", worded(node, known)


def _is_no_sentence(node):
    """Whether the text in a statement is a docstring or a regular expression."""
    docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return docstring or (isinstance(node, ast.Call) and ast.unparse(node.func).startswith("re."))


@cache
def _has_own_words(kind):
    """Whether a class makes its whole message itself, from numbers and names that it is given."""
    return kind in {"InsufficientBudget", "UnknownEntry"}


@cache
def messages():
    """Every message of the source, sorted by its words."""
    found = set()
    for module in modules():
        for function, node, kind, texts in _said_in(module):
            for text in texts:
                said = Said(re.sub(r"…+", "…", " ".join(text.split())), module, node.lineno, function, kind)
                if said.place not in NOT_FOR_USERS and (kind != "text" or said.words.count(" ") >= 3):
                    found.add(said)
    return tuple(sorted(found))


SECTION = re.compile(
    r"^<!-- messages of: (?P<modules>[^>]+?) -->\n(?P<list><details>\n.*?^</details>\n)?", re.MULTILINE | re.DOTALL
)


@cache
def sections(page):
    """Heading, modules and listed messages of each section of the page that has a list."""
    return [
        (
            re.findall(r"^#+ (.+)$", page[: found.start()], re.MULTILINE)[-1],
            found["modules"].split(),
            {words for _, words in re.findall(r"^- (`+) ?(.*?) ?\1(?: \(.*\))?$", found["list"] or "", re.MULTILINE)},
        )
        for found in SECTION.finditer(page)
    ]


def section_of(said, page):
    """The headings of the sections that a message belongs to. A function is nearer than its module, a module than its folder."""
    parts = said.module.split("/")
    folders = ["/".join(parts[:depth]) + "/" for depth in range(len(parts) - 1, 0, -1)]
    for near in (said.place, said.module, *folders):
        if found := [heading for heading, places, _ in sections(page) if near in places]:
            return found
    return []


def entry(words, ends):
    """The line of the page for a message."""
    mark, space = ("``", " ") if "`" in words else ("`", "")
    return f"- {mark}{space}{words}{space}{mark}{f' ({ends})' if ends else ''}"


ENDS = {
    "LabelDPError": "exit code 1",
    "OSError": "exit code 1",
    "SparkFailed": "exit code 1",
    "InsufficientBudget": "exit code 3",
    "LedgerBroken": "exit code 3",
    "LedgerLocked": "exit code 3",
    "UnknownEntry": "exit code 3",
    "RepeatedRelease": "warning",
    "note": "note",
}
"""How a command ends with a message. Without an entry it ends with 2, or the message is a part of another one."""


def with_lists(page):
    """The page with the list of every section written anew."""
    lists = {heading: {} for heading, _, _ in sections(page)}
    for said in messages():
        ends = "warning" if said.kind.endswith("Warning") else ENDS.get(said.kind)
        for heading in section_of(said, page) if said.has_words else []:
            lists[heading].setdefault(said.words, set()).add(ends)

    def written(found):
        heading = re.findall(r"^#+ (.+)$", page[: found.start()], re.MULTILINE)[-1]
        listed = sorted(lists[heading].items(), key=lambda one: (re.sub(r"\W", "", one[0]).casefold(), one[0]))
        summary = f"{len(listed)} messages" if len(listed) != 1 else "1 message"
        entries = "\n".join(entry(words, min(ends - {None}, default=None)) for words, ends in listed)
        return f"<!-- messages of: {found['modules']} -->\n<details>\n<summary>{summary}</summary>\n\n{entries}\n\n</details>\n"

    return SECTION.sub(written, page)


if __name__ == "__main__":
    PAGE.write_text(with_lists(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
