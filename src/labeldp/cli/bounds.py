"""The public bounds of labels, as `privatize` and `sums` take them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from labeldp.cli.options import OUT_OF_RANGE, OutOfRange
from labeldp.errors import InvalidInput

if TYPE_CHECKING:
    from labeldp.domain import Domain

BoundsOption = partial(typer.Option, rich_help_panel="Public bounds")

Lower = Annotated[str | None, BoundsOption(metavar="A", help="Lower bound of the labels.")]
Upper = Annotated[str | None, BoundsOption(metavar="B", help="Upper bound of the labels.")]
Integers = Annotated[str | None, BoundsOption(metavar="A:B", help="Whole numbers from A to B, instead of the above.")]
OutOfRangeLabels = Annotated[OutOfRange, BoundsOption(help=OUT_OF_RANGE)]


def domain_of(
    lower: str | None, upper: str | None, cells: str | None, integers: str | None, unit: str | None = None
) -> Domain:
    """The domain that the options say."""
    from labeldp.domain import Domain
    from labeldp.plain_numbers import plain_number, whole_number

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
            "give the public bounds of the labels: --lower A --upper B, or --integers A:B. They are yours to choose from what is "
            "publicly known; bounds read off the labels would reveal them"
        )
    grid = None if cells is None else whole_number(cells, "--cells")
    return Domain(plain_number(lower, "--lower"), plain_number(upper, "--upper"), grid, unit=unit)
