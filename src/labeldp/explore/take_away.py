"""What a user takes from the page into a terminal or a program: the exact command, the Python call, and the files they name."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from tempfile import TemporaryDirectory

from labeldp.explore.question import Question
from labeldp.priors import Prior

PRIOR_FILE = "prior.csv"
"""The name under which the page offers the distribution."""


@dataclass(frozen=True)
class Names:
    """What the labels party calls its things.

    Attributes
    ----------
    source : str
        The file of labels.
    label, id : str
        The columns of labels and of record ids. Without an id, records are numbered.
    out : str
        The folder of the message.
    """

    source: str = "labels.parquet"
    label: str = "amount"
    id: str = "order"
    out: str = "message"


def command(question: Question, names: Names) -> str:
    """The `labeldp privatize` command for this question, quoted for a POSIX shell."""
    parts = [_path(_home(names.source)), f"--label={names.label}"]
    if names.id:
        parts.append(f"--id={names.id}")
    parts.append(f"--epsilon={_number(question.epsilon)}")
    if question.whole:
        parts.append(f"--integers={_number(question.lower)}:{_number(question.upper)}")
    else:
        parts += [f"--lower={_number(question.lower)}", f"--upper={_number(question.upper)}"]
        if question.cells is not None:
            parts.append(f"--cells={question.cells}")
    if question.unit is not None:
        parts.append(f"--unit={question.unit}")
    parts += [f"--loss={question.loss}", f"--mechanism={question.mechanism}"]
    if question.public:
        parts.append(f"--prior={PRIOR_FILE}")
    parts.append(f"--out={_home(names.out)}")
    return "labeldp privatize " + " \\\n    ".join(map(quote, parts))


def python_call(question: Question, names: Names) -> str:
    """The same release as Python code."""
    classes = ["Domain", "LabelRandomizer", "LabelSource", *(["Prior"] if question.public else []), "privatize"]
    ids = f", id_column={names.id!r}" if names.id else ""
    unit = "" if question.unit is None else f", unit={question.unit!r}"
    cells = "" if question.cells is None else f", cells={question.cells}"
    bounds = f"{_number(question.lower)}, {_number(question.upper)}"
    domain = f"Domain.integers({bounds}{unit})" if question.whole else f"Domain({bounds}{cells}{unit})"
    prior = [f"    prior=Prior.from_csv({PRIOR_FILE!r}),"] if question.public else []
    lines = [
        f"from labeldp import {', '.join(classes)}",
        "",
        "randomizer = LabelRandomizer(",
        f"    epsilon={_number(question.epsilon)},",
        f"    domain={domain},",
        f"    loss={question.loss!r},",
        f"    mechanism={question.mechanism!r},",
        *prior,
        ")",
        f"source = LabelSource({_home(names.source)!r}, label_column={names.label!r}{ids})",
        f"outcome = privatize(source, randomizer, out={_home(names.out)!r})",
    ]
    return "\n".join(lines)


def advise_command(question: Question) -> str | None:
    """The `labeldp advise` command that prints the advisor's figures; None where the distribution came from a file."""
    if isinstance(question.distribution, Prior):
        return None
    bounds = (
        [f"--integers={_number(question.lower)}:{_number(question.upper)}"]
        if question.whole
        else [f"--lower={_number(question.lower)}", f"--upper={_number(question.upper)}"]
    )
    parts = [
        *bounds,
        f"--records={question.records}",
        f"--explained={_number(question.explained)}",
        f"--shape={question.distribution}",
        f"--epsilon={_number(question.epsilon)}",
    ]
    return "labeldp advise " + " \\\n    ".join(map(quote, parts))


def prior_csv(prior: Prior) -> str:
    """The distribution as the text of a CSV file."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / PRIOR_FILE
        prior.to_csv(path)
        return path.read_text(encoding="utf-8")


def _number(value: float) -> str:
    """A number as a person writes it, and exactly."""
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(float(value))


def _home(name: str) -> str:
    """A path with the home folder in place of ~, which neither Python nor a shell that finds it in quotes puts there."""
    return os.path.expanduser(name)  # noqa: PTH111 - a Path would lose "./" and a last "/"


def _path(name: str) -> str:
    """A path that no command takes for an option."""
    return f"./{name}" if name.startswith("-") else name
