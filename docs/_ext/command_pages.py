"""A page for each command of `labeldp`, written from the commands themselves before the build reads the pages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

from sphinx.application import Sphinx
from typer.main import get_command
from typer.testing import CliRunner

from labeldp.cli import app as labeldp

FOLDER = "reference/command"


def commands() -> Iterator[tuple[str, Any]]:
    """Every command that does something, with its words: `privatize`, `ledger create`."""
    for name, command in get_command(labeldp).commands.items():
        if hasattr(command, "commands"):
            yield from ((f"{name} {inner}", each) for inner, each in command.commands.items())
        else:
            yield name, command


def write_pages(app: Sphinx) -> None:
    folder = Path(app.srcdir) / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    pages = {folder / f"{name.replace(' ', '-')}.rst": page(name, command) for name, command in commands()}
    for stale in set(folder.iterdir()) - set(pages):
        stale.unlink()
    for path, text in pages.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:  # keeps the date of what did not change
            path.write_text(text, encoding="utf-8")


def page(name: str, command: Any) -> str:
    shown = CliRunner().invoke(labeldp, [*name.split(), "--help"], env={"COLUMNS": "240", "TERM": "dumb"}).output
    prose, examples = described(command)
    title = f"labeldp {name}"
    usage = " ".join(re.search(r"Usage: (.+)", shown)[1].split())
    lines = [title, "=" * len(title), "", *map(quoted, prose.splitlines()), ""]
    lines += [".. code-block:: text", "", f"   {usage}", ""]
    if examples:
        lines += [".. rubric:: Examples", "", ".. code-block:: console", ""]
        lines += ["   " + line for line in "\n".join(examples).splitlines()] + [""]
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    options = [each for each in command.params if each.param_type_name == "option" and not each.hidden]
    panels = {"Arguments": arguments} if arguments else {}
    for option in options:
        panels.setdefault(option.rich_help_panel or "Options", []).append(option)
    for heading, parameters in panels.items():
        lines += table(heading, ((shown_name(each), explanation(each)) for each in parameters))
    for heading in ("Mechanisms", "Models"):
        if panel := re.search(rf"─ {heading} ─+╮\n(.*?)╰─", shown, re.DOTALL):
            entries = (line.strip("│ ").split(maxsplit=1) for line in panel[1].strip().splitlines())
            lines += table(heading, ((f"``{entry}``", quoted(text)) for entry, text in entries))
    return "\n".join(lines) + "\n"


def described(command: Any) -> tuple[str, list[str]]:
    """The help without its examples, and the examples as they are typed: a command that goes on has a backslash."""
    prose, _, block = command.help.partition("\b\n")
    short = re.compile(r"^Example: (.+)$", re.MULTILINE)
    typed = [*short.findall(prose), *short.findall(command.epilog or "")]
    for line in block.splitlines()[1:]:
        if line.startswith("   "):  # goes on
            typed[-1] += f" \\\n{line.removeprefix('  ')}"
        else:
            typed.append(line.strip())
    return short.sub("", prose).strip(), typed


def shown_name(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return f"``{parameter.metavar or parameter.name.upper()}``"
    choices = get_args(parameter.type_descriptor.annotation)
    value = parameter.metavar or ("" if parameter.is_flag else "|".join(map(str, choices)))
    return f"``{', '.join(parameter.opts)}{' ' if value else ''}{value}``"


def explanation(parameter: Any) -> str:
    if parameter.required:
        return f"{quoted(parameter.help)} Required."
    default = parameter.show_default if isinstance(parameter.show_default, str) else parameter.default
    said = default not in (None, False, "", [], ()) and parameter.show_default is not False
    return quoted(parameter.help) + (f" By default ``{default}``." if said else "")


def quoted(text: str) -> str:
    """Text as reStructuredText: options as code, nothing else marked up."""
    escaped = re.sub(r"([\\*`|_])", r"\\\1", re.sub(r"\[/?[a-z]+\]", "", text))
    return re.sub(r"(?<![\w-])(--[a-z][\w-]*)", r"``\1``", escaped)


def table(heading: str, rows: Any) -> list[str]:
    lines = [heading, "-" * len(heading), "", ".. list-table::", "   :class: options", "   :widths: 30 70", ""]
    for left, right in rows:
        lines += [f"   * - {left}", f"     - {right}"]
    return [*lines, ""]


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", write_pages, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
