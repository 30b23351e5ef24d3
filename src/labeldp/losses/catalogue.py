"""The catalogue of losses. Each loss declares its entry once, beside its class."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from labeldp.catalogue import Catalogue


@dataclass(frozen=True)
class LossEntry:
    """What the catalogue knows about a loss.

    Parameters
    ----------
    name : str
        The name as users write it, without a number: "pinball".
    help : str
        One line for `--help`.
    make : callable
        Makes the loss; takes the number if there is one.
    example : str
        The name as users write it, with a number if it takes one: "pinball(0.3)".
    seeks_mean : bool
        Whether the mean of the labels minimises the loss.
    rank : int
        The position in lists.
    """

    name: str
    help: str
    make: Callable[..., Any]
    example: str
    seeks_mean: bool = False
    rank: int = 50

    @property
    def takes_number(self) -> bool:
        """Whether the name is followed by a number in parentheses."""
        return "(" in self.example


LOSSES: Catalogue[LossEntry] = Catalogue("loss", "labeldp.losses")
"""Every named loss, by name."""

C = TypeVar("C", bound=type)


def loss(name: str, *, example: str | None = None, **facts: Any) -> Callable[[C], C]:
    """A class decorator that adds a loss to the catalogue; `facts` are the other fields of `LossEntry`."""

    def enter(cls: C) -> C:
        LOSSES.add(LossEntry(name, make=cls, example=example or name, **facts))
        return cls

    return enter
