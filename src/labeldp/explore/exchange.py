"""What a user gives to the page, a distribution as CSV or the mechanism.json of a message, and takes from it: the exact command, the Python
call, the files they name, and pictures. Errors about a file name it and the problem.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np

from labeldp import plots
from labeldp.artifact import Message
from labeldp.artifact.description import total_epsilon
from labeldp.domain import Domain
from labeldp.errors import InvalidInput
from labeldp.evaluate.comparison import plot_comparison
from labeldp.evaluate.shapes import shaped_prior
from labeldp.explore.answers import RECEIVED, Question, compared, curve, designed, reported
from labeldp.json_text import read_text
from labeldp.mechanisms.finite import FiniteMechanism
from labeldp.mechanisms.registry import MECHANISMS
from labeldp.priors import Prior

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MEGABYTES = 16
"""The largest file that the page takes."""
MOST_VALUES = 100_000
"""The most values of a distribution that the page takes."""


@dataclass(frozen=True)
class Known:
    """What a file tells about labels in general.

    Attributes
    ----------
    name : str
        What the user calls the file.
    prior : Prior
        The distribution of the labels.
    domain : Domain
        The bounds of the mechanism, or the range of the distribution.
    mechanism : FiniteMechanism or None
        The mechanism, if the file contains one.
    records : int or None
        The number of records, if the file tells.
    epsilon : float or None
        The total cost of each label, if the file is a message.
    uniform : bool
        Whether the file lacks a distribution, so that labels are assumed to be uniform between its bounds.
    """

    name: str
    prior: Prior
    domain: Domain
    mechanism: FiniteMechanism | None = None
    records: int | None = None
    epsilon: float | None = None
    uniform: bool = False

    @property
    def public(self) -> bool:
        """Whether the distribution cost nothing, so that a release may take it as public."""
        return self.prior.epsilon_exact == 0


def read_upload(name: str, content: bytes) -> Known:
    """Return the content of an uploaded file.

    Raises
    ------
    InvalidInput
        If it is neither a distribution nor a mechanism. The text is for the user and names the file.
    """
    if not content:
        raise InvalidInput(f"{name} is empty")
    if len(content) > MEGABYTES << 20:
        raise InvalidInput(f"{name} has more than {MEGABYTES} MB, which is more than this page takes")
    if name.lower().endswith(".json"):
        return _from_mechanism(name, _decoded(name, content))
    return _from_csv(name, content)


def read_path(path: str | os.PathLike[str]) -> Known:
    """Return the content of a file on this machine: a CSV file, a mechanism.json or the folder of a message."""
    place = Path(path)
    if place.is_dir():
        message = Message.open(place)
        return _known(place.name, message.mechanism, message.records)
    if place.suffix.lower() == ".json":
        return _from_mechanism(place.name, read_text(place))
    return _from_prior(place.name, Prior.from_csv(place))


def _decoded(name: str, content: bytes) -> str:
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidInput(f"{name} is not UTF-8 text, so it is not a mechanism.json") from None
    if text.startswith("\ufeff"):
        raise InvalidInput(
            f"{name} begins with a byte order mark, which JSON does not have: save it as UTF-8 without BOM"
        )
    return text


def _from_csv(name: str, content: bytes) -> Known:
    _check_size(name, max(content.count(b"\n"), content.count(b"\r")) - 1)  # before minutes are spent on reading them
    first = content.splitlines()[0].decode("utf-8", "replace").lower()
    for delimiter, words in ((";", "semicolons"), ("\t", "tabs")):
        if {"value", "mass"} <= {part.strip(' "\ufeff') for part in first.split(delimiter)}:
            raise InvalidInput(
                f"{name} separates its columns by {words}: separate them by commas, with a point for decimals"
            )
    with TemporaryDirectory() as folder:
        copy = Path(folder) / "prior.csv"
        copy.write_bytes(content)
        try:
            prior = Prior.from_csv(copy)
        except InvalidInput as error:
            raise InvalidInput(str(error).replace(str(copy), name)) from None
    return _from_prior(name, prior)


def _from_prior(name: str, prior: Prior) -> Known:
    _check_size(name, len(prior))
    return Known(name, prior, _range_of(name, prior))


def _from_mechanism(name: str, text: str) -> Known:
    try:
        mechanism = FiniteMechanism.from_json(text)
    except InvalidInput as error:
        raise InvalidInput(f"{name}: {error}") from None
    return _known(name, mechanism, None)


def _known(name: str, mechanism: FiniteMechanism, records: int | None) -> Known:
    prior = mechanism.prior
    uniform = prior is None
    if prior is None:
        if mechanism.domain is None:
            raise InvalidInput(f"{name} has neither a distribution nor bounds: choose a shape instead")
        prior = shaped_prior("uniform", mechanism.domain)
    _check_size(name, len(prior))
    counted = None if prior.counts is None else prior.counts.records
    return Known(
        name=name,
        prior=prior,
        domain=mechanism.domain or _range_of(name, prior),
        mechanism=mechanism,
        records=records or counted,
        epsilon=float(total_epsilon(mechanism)),
        uniform=uniform,
    )


def _check_size(name: str, values: int) -> None:
    if values > MOST_VALUES:
        raise InvalidInput(f"{name} has {values:,} values, and this page takes up to {MOST_VALUES:,}: merge neighbours")


def _range_of(name: str, prior: Prior) -> Domain:
    """Return the range of a distribution, as whole numbers if all its values are."""
    if len(prior) < 2:
        raise InvalidInput(f"{name}: a distribution needs at least two values: with one, all labels are the same")
    values = prior.values
    low, high = float(values[0]), float(values[-1])
    if (values == np.rint(values)).all() and high - low < MOST_VALUES:
        return Domain.integers(int(low), int(high))
    return Domain(low, high)


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
    """Return the `labeldp privatize` command for this question, quoted for a POSIX shell."""
    parts = [_path(_home(names.source)), f"--label={names.label}"]
    if names.id:
        parts.append(f"--id={names.id}")
    parts.append(f"--epsilon={_number(question.epsilon)}")
    parts += _bounds(question)
    if not question.whole and question.cells is not None:
        parts.append(f"--cells={question.cells}")
    if question.unit is not None:
        parts.append(f"--unit={question.unit}")
    parts += [f"--loss={question.loss}", f"--mechanism={question.mechanism}"]
    if question.public:
        parts.append(f"--prior={PRIOR_FILE}")
    parts.append(f"--out={_home(names.out)}")
    return "labeldp privatize " + " \\\n    ".join(map(quote, parts))


def python_call(question: Question, names: Names) -> str:
    """Return the same release as Python code."""
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
    """Return the `labeldp advise` command that prints the advisor's figures; None where the distribution came from a file."""
    if isinstance(question.distribution, Prior):
        return None
    parts = [
        *_bounds(question),
        f"--records={question.records}",
        f"--explained={_number(question.explained)}",
        f"--shape={question.distribution}",
        f"--epsilon={_number(question.epsilon)}",
        *(["--public"] if question.public else []),
    ]
    return "labeldp advise " + " \\\n    ".join(map(quote, parts))


def _bounds(question: Question) -> list[str]:
    lower, upper = _number(question.lower), _number(question.upper)
    return [f"--integers={lower}:{upper}"] if question.whole else [f"--lower={lower}", f"--upper={upper}"]


def prior_csv(prior: Prior) -> str:
    """Return the distribution as the text of a CSV file."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / PRIOR_FILE
        prior.to_csv(path)
        return path.read_text(encoding="utf-8")


def _number(value: float) -> str:
    """Return a number as a person writes it, and exactly."""
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(float(value))


def _home(name: str) -> str:
    """Return a path with the home folder in place of ~, which neither Python nor a shell that finds it in quotes puts there."""
    return os.path.expanduser(name)  # noqa: PTH111 - a Path would lose "./" and a last "/"


def _path(name: str) -> str:
    """Return a path that no command takes for an option."""
    return f"./{name}" if name.startswith("-") else name


FIGURES = ("predicted error", "outputs over the distribution", "one label", "comparison")
"""Figures to download. The heat map of the channel is on the page only."""


def figure(name: str, question: Question, *, label: float, names: tuple[str, ...]) -> Axes:
    """Draw one of `FIGURES`.

    Parameters
    ----------
    name : str
        Which one.
    question : Question
        What it shows.
    label : float
        The label of "one label".
    names : tuple of str
        The mechanisms of "comparison".

    Returns
    -------
    matplotlib axes
    """
    if name == "predicted error":
        return _marked(curve(question).plot(), question.epsilon)
    if name == "comparison":
        return _marked(plot_comparison(compared(question, names)[0], question.loss), question.epsilon)
    mechanism, prior = designed(question).mechanism, question.merged
    if name == "one label":
        found = reported(mechanism, label)
        entry = MECHANISMS.get(mechanism.kind if question.mechanism == RECEIVED else question.mechanism)
        colour = plots.CURVES[0] if entry is None else entry.colour
        title = f"what a label of {label:.4g} is reported as"
        axes = plots.new_axes()
        axes.vlines(found.outputs, 0, found.probabilities, color=colour, lw=2.2 if found.outputs.size <= 40 else 1.2)
        axes.plot([], [], color=colour, label="probability of a report")
        axes.axvline(label, color=plots.QUIET, lw=1.2, ls="--", label="the label itself")
        axes.set(xlabel="private label", ylabel="probability", ylim=(0, None))
        plots.heading(axes, title)
        return plots.tidy(axes, legend=True)
    return mechanism.plot(prior)


def _marked(axes: Axes, epsilon: float) -> Axes:
    axes.axvline(epsilon, color=plots.QUIET, lw=1.2, ls=":")
    return axes
