"""The catalogue of losses: what each one states about itself, once, beside its class."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from labeldp.catalogue import Catalogue


@dataclass(frozen=True)
class LossEntry:
    """One loss by name.

    Parameters
    ----------
    name : str
        As users write it, without its number: "pinball".
    help : str
        One line for `--help`.
    make : callable
        The loss; takes the number where there is one.
    example : str
        How it is written: "pinball(0.3)".
    seeks_mean : bool
        Whether the mean of the labels minimises it.
    rank : int
        Its place in lists.
    """

    name: str
    help: str
    make: Callable[..., Any]
    example: str
    seeks_mean: bool = False
    rank: int = 50

    @property
    def takes_number(self) -> bool:
        """Whether it is written with a number in parentheses."""
        return "(" in self.example


LOSSES: Catalogue[LossEntry] = Catalogue("loss", "labeldp.losses")
"""Every named loss."""

C = TypeVar("C", bound=type)


def loss(name: str, *, example: str | None = None, **facts: Any) -> Callable[[C], C]:
    """Decorate a loss's class with its entry in the catalogue; `facts` are those of `LossEntry`."""

    def enter(cls: C) -> C:
        LOSSES.add(LossEntry(name, make=cls, example=example or name, **facts))
        return cls

    return enter
