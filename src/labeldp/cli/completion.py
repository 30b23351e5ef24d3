"""What the shell offers for an option. The catalogues are read when the Tab key is pressed, so that commands start fast."""

from collections.abc import Iterable

from rich.markup import escape

from labeldp.cli.lazy_help import exact_mechanisms, mechanisms, models

Offers = list[tuple[str, str]]
"""Values, each with its line of help, which some shells show."""


def mechanism_offers(incomplete: str) -> Offers:
    """The mechanisms that can be released."""
    return _beginning(exact_mechanisms().items(), incomplete)


def several_mechanism_offers(incomplete: str) -> Offers:
    """All mechanisms, for a list with commas: the last name is completed."""
    before, comma, last = incomplete.rpartition(",")
    return [(before + comma + name, text) for name, text in _beginning(mechanisms().items(), last)]


def model_offers(incomplete: str) -> Offers:
    """The learners."""
    return _beginning(models().items(), incomplete)


def loss_offers(incomplete: str) -> Offers:
    """The losses; those with a number are shown with an example of it."""
    from labeldp.losses import loss_examples

    return _beginning(((name, "") for name in loss_examples()), incomplete)


def _beginning(values: Iterable[tuple[str, str]], incomplete: str) -> Offers:
    return [(value, escape(text)) for value, text in values if value.startswith(incomplete)]  # typer reads markup
