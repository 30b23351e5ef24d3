"""The list of types that a model file may hold. A name in a file picks one of these entries and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from labeldp.errors import InvalidInput

State = dict[str, Any]


class NotStorable(InvalidInput):
    """A model holds something that the safe format cannot hold."""


@dataclass(frozen=True)
class Kind:
    """How objects of one type become plain data and back.

    Parameters
    ----------
    name : str
        Its name in files.
    type : type
        The type. Subclasses are other types, unless `subclasses` is set.
    state : callable
        The state of an object: a dict of values that can be stored in turn.
    build : callable
        The object of a state. It checks the state, because a file can hold any: `InvalidInput` or `ValueError` if it is wrong.
    subclasses : bool
        Whether the entry is for subclasses as well.
    """

    name: str
    type: type
    state: Callable[[Any], State]
    build: Callable[[State], Any]
    subclasses: bool = False


_KINDS: dict[str, Kind] = {}
_HOMES = (
    "labeldp.training.stored.estimators",
    "labeldp.training.stored.values",
    "labeldp.training.stored.sums",
    "labeldp.paper.network.stored",
)
"""The modules that enter types, imported when a model is saved or loaded. The last is named only, as its room lies above."""


def add(kind: Kind) -> None:
    """Enter a type. A second entry of the same name is a `ValueError`."""
    if kind.name in _KINDS:
        raise ValueError(f"there are two entries for {kind.name!r}")
    _KINDS[kind.name] = kind


def _entries() -> Iterator[Kind]:
    """All types that can be stored. A module that enters some is imported when those before it are through."""
    seen: set[str] = set()
    for home in _HOMES:
        import_module(home)
        for kind in list(_KINDS.values()):
            if kind.name not in seen:
                seen.add(kind.name)
                yield kind


def kind_named(name: object) -> Kind | None:
    """The entry of that name, or None."""
    return next((kind for kind in _entries() if kind.name == name), None)


def kind_of(value: object) -> Kind | None:
    """The entry for a value's type, or None."""
    for kind in _entries():
        if type(value) is kind.type or (kind.subclasses and isinstance(value, kind.type)):
            return kind
    return None


def exactly(state: State, *names: str) -> list[Any]:
    """The values of a state with these names and no other."""
    if set(state) != set(names):
        raise InvalidInput(f"expected {', '.join(names)}, found {', '.join(map(str, state))}"[:300])
    return [state[name] for name in names]


def is_a(value: object, *types: type, what: str) -> Any:
    """The value, if it is of one of these types."""
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        raise InvalidInput(f"{what} is a {type(value).__name__}")
    return value


def all_are(values: object, kind: type, what: str) -> tuple[Any, ...]:
    """A list or tuple of values of one type, as a tuple."""
    return tuple(is_a(value, kind, what=f"an entry of {what}") for value in is_a(values, list, tuple, what=what))
