"""Options that several commands take, the public bounds of labels, and the reading of lists."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from labeldp.errors import InvalidInput

if TYPE_CHECKING:
    from labeldp.domain import Domain

OutputOption = partial(typer.Option, rich_help_panel="Output")
SparkOption = partial(typer.Option, rich_help_panel="Spark")
BudgetOption = partial(typer.Option, rich_help_panel="Privacy budget")

Label = Annotated[str, typer.Option("--label", metavar="COL", help="The column of sensitive numbers, or of classes.")]
IdType = Annotated[
    Literal["int", "str"] | None,
    typer.Option("--id-type", help="The type of the ids, for text files, which do not say it."),
]
Person = Annotated[
    str | None,
    typer.Option(
        "--person",
        metavar="COL",
        help="The column of LABELS that tells whom a row belongs to. Then ε is for all labels of a person together, and each person "
        "counts as one, whatever the number of rows.",
    ),
]
Delimiter = Annotated[
    str | None,
    typer.Option(
        "--delimiter",
        metavar="CHAR",
        help="What separates the columns of text files. By default the header line shows it: , ; | or a tab.",
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
LedgerFile = Annotated[
    Path | None, BudgetOption("--ledger", metavar="DB", help="Charge this ledger (labeldp ledger create).")
]
Dataset = Annotated[str | None, BudgetOption("--dataset", metavar="NAME", help="The dataset to charge in it.")]
Engine = Literal["arrow", "spark"]
EngineChoice = Annotated[
    Engine,
    SparkOption("--engine", help="arrow reads files on this machine; spark reads any place that Apache Spark knows."),
]
SparkConf = Annotated[
    Path | None,
    SparkOption(
        "--spark-conf",
        metavar="FILE",
        help="Settings of Spark, as in spark-defaults.conf. spark.master is where it runs: local[*] (the default), yarn, k8s://….",
    ),
]
Conf = Annotated[
    list[str] | None,
    SparkOption(
        "--conf", metavar="K=V", help="A setting of Spark, as spark.master=yarn. May be repeated; overrides the file."
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
Classes = Annotated[
    str | None,
    BoundsOption(
        metavar="NAME,…",
        help="Labels are classes with these names, instead of numbers. Booleans, 0 and 1 are the first and the second of two.",
    ),
]
Integers = Annotated[str | None, BoundsOption(metavar="A:B", help="Whole numbers from A to B, instead of the above.")]
OutOfRangeLabels = Annotated[OutOfRange, BoundsOption(help=OUT_OF_RANGE)]


def domain_of(
    lower: str | None,
    upper: str | None,
    cells: str | None,
    integers: str | None,
    unit: str | None = None,
    classes: str | None = None,
) -> Domain:
    """The domain that the options say."""
    from labeldp.domain import Domain
    from labeldp.plain_numbers import plain_number, whole_number

    if classes is not None:
        if any(given is not None for given in (lower, upper, cells, integers, unit)):
            raise InvalidInput("classes have no bounds: leave out --lower, --upper, --cells, --integers and --unit")
        if "=" in classes:
            raise InvalidInput(
                "--classes are plain names, such as no,yes. With several labels they are those of the labels without --bounds"
            )
        return Domain.of_classes(comma_list(classes))
    if integers is not None:
        if lower is not None or upper is not None or cells is not None:
            raise InvalidInput("give either --integers A:B or --lower and --upper, not both")
        try:
            first, last = (whole_number(end, "each end") for end in integers.split(":"))
        except ValueError as error:
            raise InvalidInput(f"--integers takes two whole numbers as in 0:52, got {integers!r}") from error
        return Domain.integers(first, last, unit)
    if lower is None or upper is None:
        raise InvalidInput(
            "give the public bounds of the labels: --lower A --upper B, or --integers A:B; or --classes for labels that are classes. They are yours to choose from what is "
            "publicly known; bounds read off the labels would reveal them"
        )
    grid = None if cells is None else whole_number(cells, "--cells")
    return Domain(plain_number(lower, "--lower"), plain_number(upper, "--upper"), grid, unit=unit)
