"""Options that several commands take.

A group of options is a frozen dataclass whose fields are options. A command with the decorator `grouped` takes a group as one
parameter, and users see the options themselves.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property, partial, wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

import typer
from rich.markup import escape
from rich.text import Text
from typer.core import TyperCommand

from labeldp.cli.console import line, note, phases, stoppable
from labeldp.errors import InvalidInput
from labeldp.formatting import count_of, plain_number, whole_number

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from labeldp.domain import Domain
    from labeldp.engines.arrow.source import LabelSource
    from labeldp.engines.passes import LabelInput, MatchedInput
    from labeldp.engines.spark.spark_input import SparkInput
    from labeldp.release.ledger import Ledger
    from labeldp.tables.files import Phase

OutputOption = partial(typer.Option, rich_help_panel="Output")
BudgetOption = partial(typer.Option, rich_help_panel="Privacy budget")

LabelsArgument = Annotated[
    Path,
    typer.Argument(metavar="LABELS", help="Parquet (a file or a folder of parts), CSV or TSV (also .gz), Arrow IPC."),
]
Label = Annotated[str, typer.Option("--label", metavar="COL", help="The column of sensitive numbers, or of classes.")]
IdType = Annotated[
    Literal["int", "str"] | None,
    typer.Option("--id-type", help="The type of the ids, in text files, which do not state it."),
]
Person = Annotated[
    str | None,
    typer.Option(
        "--person",
        metavar="COL",
        help="The column of LABELS with the person of each row. Then ε is for all labels of a person together, and each person "
        "counts as one, regardless of the number of rows.",
    ),
]
SmallestGroup = Annotated[
    int,
    typer.Option("--smallest-group", metavar="N", min=2, help="Groups with fewer records are merged into one."),
]
Delimiter = Annotated[
    str | None,
    typer.Option(
        "--delimiter",
        metavar="CHAR",
        help="The delimiter of text files. By default it is found in the header line: , ; | or a tab.",
    ),
]
DecimalMark = Annotated[
    Literal[".", ","],
    typer.Option("--decimal", help="The decimal separator of labels in text files."),
]
OutOfRange = Literal["clip", "clip-all", "error"]
OUT_OF_RANGE = "Labels outside the bounds: clip moves them to the bounds, up to 20 % of all; clip-all moves any number; error refuses any."
SignKey = Annotated[
    Path | None,
    OutputOption(
        "--sign-key",
        metavar="PEM",
        help="Sign the message with this private Ed25519 key (labeldp signing-keys makes a pair).",
    ),
]
VerifyKey = Annotated[
    Path | None,
    typer.Option(
        "--verify-key", metavar="PEM", help="The sender's public key. A message that is not signed with it is refused."
    ),
]
Quiet = Annotated[bool, OutputOption("--quiet", "-q", help="Print warnings and errors only.")]
Json = Annotated[bool, OutputOption("--json", help="Print the result as JSON; exact numbers are text.")]


def comma_list(text: str | None) -> list[str]:
    """The values of an option that takes several, separated by commas. There are none if the option was left out."""
    values = [part.strip() for part in (text or "").split(",") if part.strip()]
    if text is not None and not values:
        raise InvalidInput(f"give at least one value, or several separated by commas, instead of {text!r}")
    return values


BoundsOption = partial(typer.Option, rich_help_panel="Public bounds")

Lower = Annotated[str | None, BoundsOption(metavar="A", help="Lower bound of the labels.")]
Upper = Annotated[str | None, BoundsOption(metavar="B", help="Upper bound of the labels.")]
Integers = Annotated[str | None, BoundsOption(metavar="A:B", help="Whole numbers from A to B, instead of the above.")]


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Let users see the options of the groups that a command takes as parameters."""
    shown: list[Parameter] = []
    groups: dict[str, Any] = {}
    for parameter in signature(command, eval_str=True).parameters.values():
        if is_dataclass(kind := parameter.annotation):
            groups[parameter.name] = kind
            hints = get_type_hints(kind, include_extras=True)
            shown += [
                Parameter(one.name, Parameter.KEYWORD_ONLY, default=one.default, annotation=hints[one.name])
                for one in fields(kind)
            ]
        else:
            shown.append(parameter.replace(kind=Parameter.KEYWORD_ONLY))

    @wraps(command)
    def expanded(**given: Any) -> None:
        made = {
            name: group(**{one.name: given.pop(one.name) for one in fields(group)}) for name, group in groups.items()
        }
        command(**given, **made)

    expanded.__signature__ = Signature(shown)  # type: ignore[attr-defined] # Typer reads both
    expanded.__annotations__ = {one.name: one.annotation for one in shown}
    return expanded


@dataclass(frozen=True)
class TextFiles:
    """How text files of labels are read."""

    id_type: IdType = None
    delimiter: Delimiter = None
    decimal: DecimalMark = "."

    def source(self, path: str | Path, label: str, ids: str | None, person: str | None) -> LabelSource:
        """Return the labels in a file."""
        from labeldp.engines.arrow.source import LabelSource

        return LabelSource(path, label, ids, self.id_type, self.delimiter, decimal=self.decimal, person_column=person)


@dataclass(frozen=True)
class Bounds:
    """The public bounds of labels."""

    lower: Lower = None
    upper: Upper = None
    integers: Integers = None
    unit: Annotated[
        str | None,
        BoundsOption(
            metavar="UNIT", help="The unit of time of labels and bounds, such as hours or days. Durations need it."
        ),
    ] = None
    out_of_range: Annotated[OutOfRange, BoundsOption(help=OUT_OF_RANGE)] = "clip"

    def domain(self, cells: str | None = None) -> Domain:
        """Return the domain that these options and `--cells` describe."""
        from labeldp.domain import Domain

        if self.integers is not None:
            if any(given is not None for given in (self.lower, self.upper, cells)):
                raise InvalidInput("give either --integers A:B or --lower and --upper, not both")
            try:
                first, last = (whole_number(end, "each end") for end in self.integers.split(":"))
            except ValueError as error:
                raise InvalidInput(f"--integers takes two whole numbers as in 0:52, got {self.integers!r}") from error
            return Domain.integers(first, last, self.unit)
        if self.lower is None or self.upper is None:
            classes = "; or --classes for labels that are classes" if hasattr(self, "classes") else ""
            raise InvalidInput(
                f"give the public bounds of the labels: --lower A --upper B, or --integers A:B{classes}. They are yours to choose from what is "
                "publicly known; bounds read off the labels would reveal them"
            )
        grid = None if cells is None else whole_number(cells, "--cells")
        return Domain(plain_number(self.lower, "--lower"), plain_number(self.upper, "--upper"), grid, unit=self.unit)


Classes = Annotated[
    str | None,
    BoundsOption(
        metavar="NAME,…",
        help="Labels are classes with these names, instead of numbers. Booleans, 0 and 1 are the first and the second of two.",
    ),
]


@dataclass(frozen=True)
class BoundsOrClasses(Bounds):
    """The public bounds of labels, or the names of their classes."""

    classes: Classes = None

    def domain(self, cells: str | None = None) -> Domain:
        """Return the domain that these options and `--cells` describe."""
        from labeldp.domain import Domain

        if self.classes is None:
            return super().domain(cells)
        if any(given is not None for given in (self.lower, self.upper, cells, self.integers, self.unit)):
            raise InvalidInput("classes have no bounds: leave out --lower, --upper, --integers, --unit and --cells")
        if "=" in self.classes:
            raise InvalidInput(
                "--classes are plain names, such as no,yes. With several labels they are those of the labels without --bounds"
            )
        return Domain.of_classes(comma_list(self.classes))


@dataclass(frozen=True)
class Charging:
    """The ledger that a release is charged to, and the key that signs it."""

    ledger: Annotated[
        Path | None, BudgetOption("--ledger", metavar="DB", help="Charge this ledger (labeldp ledger create).")
    ] = None
    dataset: Annotated[str | None, BudgetOption("--dataset", metavar="NAME", help="The dataset to charge in it.")] = (
        None
    )
    sign_key: SignKey = None

    @cached_property
    def opened(self) -> Ledger | None:
        """The ledger, if one is charged."""
        from labeldp.release.ledger import Ledger

        if self.dataset is not None and self.ledger is None:
            raise InvalidInput("--dataset names a dataset in a ledger: give --ledger too")
        return None if self.ledger is None else Ledger(self.ledger)

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of a release in Python. An unknown dataset is refused here."""
        if self.opened is not None and self.dataset is not None:
            self.opened.remaining(self.dataset)
        return {"ledger": self.opened, "dataset": self.dataset, "sign_key": self.sign_key}

    def tell(self) -> None:
        """Print the rest of the budget in the ledger."""
        from labeldp.budget import decimal_text

        if self.opened is not None and self.dataset is not None:
            line("ledger", f"{self.dataset} has ε = {decimal_text(self.opened.remaining(self.dataset))} left")

    def verify_option(self) -> str:
        """Return the option with which the other party checks the signature, to print it."""
        return "" if self.sign_key is None else " --verify-key YOUR_PUBLIC_KEY"


@dataclass(frozen=True)
class Shown:
    """The amount and the form of a command's output."""

    quiet: Quiet = False
    as_json: Json = False

    @contextmanager
    def running(self, advice: str) -> Iterator[Phase]:
        """Show the phases of a release. Someone who stops it is given the advice. With --quiet no warning shows the share of clipped labels."""
        from labeldp.errors import ClippingWarning

        with stoppable(advice), phases(quiet=self.quiet) as phase, warnings.catch_warnings():
            if self.quiet:
                warnings.simplefilter("ignore", ClippingWarning)
            yield phase

    def note_clipped(self, clipped: int, records: int, out_of_range: str) -> None:
        """Tell the labels party how many labels were clipped. ε does not cover the number, so it is in no result.

        If they are many, there was a warning already. With --quiet, whose output may go to a log, no number is shown.
        """
        from labeldp.domain import MOST_CLIPPED

        unmeant = clipped > MOST_CLIPPED * records and out_of_range != "clip-all"
        if self.quiet and unmeant:
            note(
                f"more than {MOST_CLIPPED:.0%} of the labels lay outside the bounds and were moved to them. If that is not meant, "
                "choose wider bounds from what is publicly known. This is about the true labels: keep it to yourself"
            )
        elif clipped and not self.quiet and not unmeant:
            note(
                f"{count_of(clipped, 'label')} lay outside the bounds and {was_or_were(clipped)} moved to them. Keep this number to yourself: it is "
                "not part of what ε covers"
            )


def was_or_were(count: int) -> str:
    """Return the verb for a number of things."""
    return "was" if count == 1 else "were"


def records_text(records: int, persons: int | None) -> str:
    """Return the number of records, and of persons if ε is for each of them."""
    return f"{records:,}" if persons is None else f"{records:,} of {persons:,} persons, each of whom counts as one"


def for_each(persons: int | None) -> str:
    """Return what follows ε where it is for each person."""
    return "" if persons is None else " for each person"


CHARGED = "If it was charged already, it stays so"
"""The advice to someone who stopped a release that cannot be resumed."""


SparkOption = partial(typer.Option, rich_help_panel="Spark")


@dataclass(frozen=True)
class Labels:
    """The input as the command line names it.

    Attributes
    ----------
    source : str
        A path, or a URI for Spark.
    label, ids : str
        The columns. Only Arrow can do without ids.
    text : TextFiles
        How text files are read.
    person : str, optional
        The column of persons, if a person is the unit of privacy.
    classes : bool, default False
        Whether labels are classes, which Spark reads from text files as text.
    """

    source: str
    label: str
    ids: str | None
    text: TextFiles
    person: str | None = None
    classes: bool = False

    def file(self) -> LabelSource:
        """Return the input for Arrow."""
        return self.text.source(self.source, self.label, self.ids, self.person)


@dataclass(frozen=True)
class EngineOptions:
    """`--engine`, and the settings of Spark: `--spark-conf` and `--conf`."""

    engine: Annotated[
        Literal["arrow", "spark"],
        SparkOption(
            "--engine", help="arrow reads files on this machine; spark reads any place that Apache Spark knows."
        ),
    ] = "arrow"
    spark_conf: Annotated[
        Path | None,
        SparkOption(
            "--spark-conf",
            metavar="FILE",
            help="Settings of Spark, as in spark-defaults.conf. spark.master is where it runs: local[*] (the default), yarn, k8s://….",
        ),
    ] = None
    conf: Annotated[
        list[str] | None,
        SparkOption(
            "--conf",
            metavar="K=V",
            help="A setting of Spark, as spark.master=yarn. May be repeated; overrides the file.",
        ),
    ] = None

    def check(self, labels: Labels, *, keep_order: bool = False) -> None:
        """Raise `InvalidInput` for options that the engine does not have, before anything is started or read."""
        given = {"--spark-conf": self.spark_conf is not None, "--conf": bool(self.conf)}
        if self.engine == "arrow":
            if names := [name for name, is_given in given.items() if is_given]:
                raise InvalidInput(
                    f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'} for Spark: give --engine spark too"
                )
            if "://" in labels.source:
                raise InvalidInput(
                    f"{labels.source} is not a file of this machine: give --engine spark to read it with Spark"
                )
            return
        if labels.ids is None:
            raise InvalidInput(
                "--engine spark needs --id COL: rows on a cluster have no numbers that could be their ids"
            )
        if keep_order:
            raise InvalidInput(
                "--keep-order does not go with --engine spark: rows on a cluster have no order to keep. Leave it out"
            )
        if labels.text.decimal != ".":
            raise InvalidInput(
                "--decimal , is not possible with --engine spark: write decimals with a point, or use Arrow"
            )

    @contextmanager
    def reads(self, labels: Labels, phase: Phase) -> Iterator[LabelInput]:
        """Give the input, open while the block runs."""
        if self.engine == "spark":
            with self._on_spark(labels, phase) as found:
                yield found
            return
        from labeldp.engines.arrow.arrow_input import ArrowInput

        yield ArrowInput(labels.file())

    @contextmanager
    def joins(self, labels: Labels, phase: Phase) -> Iterator[LabelSource | MatchedInput]:
        """Give the input for a join by id, open while the block runs."""
        if self.engine == "arrow":
            yield labels.file()
            return
        with self._on_spark(labels, phase) as found:
            from labeldp.engines.spark.spark_sums import SparkLabels

            yield SparkLabels(found)

    def count(self, labels: Labels, phase: Phase) -> tuple[int, NDArray[np.int64] | None]:
        """Return the number of records, and that of persons by their number of rows if there is a column of persons. Reads no label."""
        if self.engine == "spark":
            with self._on_spark(labels, phase) as found:
                return found.row_count() or 0, found.count_persons()
        from labeldp.engines.arrow.person_spill import count_persons
        from labeldp.engines.arrow.source import count_rows

        file = labels.file()
        return count_rows(file), None if labels.person is None else count_persons(file)

    def check_arrow(self, what: str) -> None:
        """Raise `InvalidInput` for Spark, with what is not possible there."""
        if self.engine != "arrow":
            raise InvalidInput(f"{what}: use Arrow (--engine arrow)")

    @contextmanager
    def _on_spark(self, labels: Labels, phase: Phase) -> Iterator[SparkInput]:
        from labeldp.engines.spark import require_pyspark

        require_pyspark()
        from labeldp.engines.spark.frames import read_records
        from labeldp.engines.spark.session import (
            ALLOW_UNENCRYPTED,
            SCRATCH,
            THIS_MACHINE,
            is_local,
            is_on,
            parsed_settings,
            running,
        )
        from labeldp.engines.spark.spark_input import SparkInput

        assert labels.ids is not None, "checked before"
        settings = parsed_settings(self.spark_conf, self.conf or ())
        scratch, unencrypted = settings.pop(SCRATCH, None), is_on(settings.pop(ALLOW_UNENCRYPTED, None))
        here = "://" not in labels.source and is_local(settings.get("spark.master", THIS_MACHINE))
        if here and not Path(labels.source).exists():  # before Spark takes its seconds to start
            raise InvalidInput(f"there is no file {labels.source}: check the path")
        phase("starting", None)
        with running(settings, kept=lambda log: note(f"Spark's log is in {log}")) as spark:
            text, columns = labels.text, (labels.label, labels.ids)
            frame, id_type = read_records(
                spark, labels.source, *columns, text.id_type, text.delimiter, labels.person, classes=labels.classes
            )
            yield SparkInput(
                frame, *columns, id_type, scratch=scratch, allow_unencrypted=unencrypted, person_column=labels.person
            )


LOSSES = "{losses}"
"""In the help of an option: represents the names of the losses."""


def help_with(title: str, entries: Callable[[], dict[str, str]]) -> type[TyperCommand]:
    """A class for commands whose help ends with a panel that explains the entries of a catalogue, one on each line."""

    class LazyHelp(TyperCommand):
        def format_help(self, ctx: Any, formatter: Any) -> None:
            for parameter in self.params:
                if LOSSES in (getattr(parameter, "help", None) or ""):
                    parameter.help = parameter.help.replace(LOSSES, ", ".join(losses()))  # type: ignore[attr-defined]
            super().format_help(ctx, formatter)
            _print_panel(title, entries())

    return LazyHelp


def mechanisms() -> dict[str, str]:
    """All mechanisms, each with its line of help."""
    from labeldp.mechanisms import MECHANISMS

    return {entry.name: entry.help for entry in MECHANISMS}


def exact_mechanisms() -> dict[str, str]:
    """The mechanisms that can be released, each with its line of help."""
    from labeldp.mechanisms import MECHANISMS

    return {entry.name: entry.help for entry in MECHANISMS if entry.exact}


def models() -> dict[str, str]:
    """The learners, each with its line of help."""
    from labeldp.learn.learners import learners

    return {entry.name: entry.help for entry in learners()}


def losses() -> dict[str, str]:
    """The losses; those with a number are shown with an example of it."""
    from labeldp.losses import loss_examples

    return dict.fromkeys(loss_examples(), "")


def _print_panel(title: str, entries: dict[str, str]) -> None:
    from rich.console import Console
    from rich.panel import Panel
    from rich.table import Table

    table = Table.grid(padding=(0, 2, 0, 0))
    for name, explanation in entries.items():
        table.add_row(Text(name, style="bold cyan"), Text(explanation))
    Console().print(Panel(table, title=title, title_align="left", border_style="dim"))


Offers = list[tuple[str, str]]
"""Values, each with its line of help, which some shells show."""


def offers(entries: Callable[[], dict[str, str]]) -> Callable[[str], Offers]:
    """A completion with these entries. In a list with commas the last name is completed."""

    def complete(incomplete: str) -> Offers:
        before, comma, last = incomplete.rpartition(",")
        found = ((name, text) for name, text in entries().items() if name.startswith(last))
        return [(before + comma + name, escape(text)) for name, text in found]  # typer reads markup

    return complete
