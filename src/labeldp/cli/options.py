"""Options that several commands take.

A group of options is a frozen dataclass whose fields are options. A command with the decorator `grouped` takes a group as one
parameter, and users see the options themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property, partial, wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

import typer

from labeldp.cli.console import line, no_share, phases, stoppable
from labeldp.errors import InvalidInput

if TYPE_CHECKING:
    from labeldp.domain import Domain
    from labeldp.engines.arrow.source import LabelSource
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
        from labeldp.formatting import plain_number, whole_number

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
        """Print what is left in the ledger."""
        from labeldp.budget import decimal_text

        if self.opened is not None and self.dataset is not None:
            line("ledger", f"{self.dataset} has ε = {decimal_text(self.opened.remaining(self.dataset))} left")

    def verify_option(self) -> str:
        """Return the option with which the other party checks the signature, to print it."""
        return "" if self.sign_key is None else " --verify-key YOUR_PUBLIC_KEY"


@dataclass(frozen=True)
class Shown:
    """How much a command prints, and in which form."""

    quiet: Quiet = False
    as_json: Json = False

    @contextmanager
    def running(self, advice: str) -> Iterator[Phase]:
        """Show the phases of a release. Someone who stops it is given the advice."""
        with stoppable(advice), phases(quiet=self.quiet) as phase, no_share(quiet=self.quiet):
            yield phase


CHARGED = "If it was charged already, it stays so"
"""The advice to someone who stopped a release that cannot be resumed."""
