"""What a user takes from the page: the exact command, the Python call, the files they name, and pictures."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from labeldp import plots
from labeldp.evaluate.comparison import plot_comparison
from labeldp.explore.answers import compared, curve, designed
from labeldp.explore.question import RECEIVED, Question
from labeldp.explore.views import reported
from labeldp.mechanisms.registry import MECHANISMS
from labeldp.priors import Prior

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
