"""A catalogue: named entries that each state their own facts, one file an entry, found without a list kept by hand."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from importlib import import_module
from pkgutil import iter_modules
from typing import Generic, Protocol, TypeVar

from labeldp.errors import InvalidInput


class Named(Protocol):
    """Anything with a name."""

    @property
    def name(self) -> str: ...


E = TypeVar("E", bound=Named)


class Catalogue(Generic[E]):
    """Entries by name, in the order of `rank` and then of their names.

    Every module of `package` may add entries when it is imported. All of them are imported at the first look, so that a
    new file in the package is all that a new entry takes.

    Parameters
    ----------
    what : str
        What an entry is, for error messages: "mechanism".
    package : str
        The package whose modules hold the entries.
    """

    def __init__(self, what: str, package: str) -> None:
        self._what, self._package = what, package
        self._entries: dict[str, E] = {}
        self._complete = False

    def add(self, entry: E) -> E:
        """Enter `entry`; a name is taken once only."""
        if entry.name in self._entries:
            raise ValueError(f"there are two entries for the {self._what} {entry.name!r}")
        self._entries[entry.name] = entry
        return entry

    def discard(self, name: str) -> None:
        """Take an entry out again: for tests."""
        self._entries.pop(name, None)

    def get(self, name: object) -> E | None:
        """The entry of that name, or None."""
        return self._all().get(name) if isinstance(name, str) else None

    def __getitem__(self, name: str) -> E:
        """The entry of that name; an error that suggests the nearest one where there is none."""
        entry = self.get(name)
        if entry is None:
            close = get_close_matches(str(name).lower(), self.names, n=1, cutoff=0.5)
            hint = f" Did you mean {_written(self._entries[close[0]])!r}?" if close else ""
            known = ", ".join(_written(entry) for entry in self)
            raise InvalidInput(f"unknown {self._what} {name!r}.{hint} Known: {known}.")
        return entry

    def __iter__(self) -> Iterator[E]:
        return iter(self._all().values())

    @property
    def names(self) -> list[str]:
        """The names of all entries."""
        return list(self._all())

    def _all(self) -> dict[str, E]:
        if not self._complete:
            self._complete = True
            package = import_module(self._package)
            for module in iter_modules(package.__path__):
                import_module(f"{self._package}.{module.name}")
            ordered = sorted(self._entries.values(), key=lambda entry: (getattr(entry, "rank", 0), entry.name))
            self._entries = {entry.name: entry for entry in ordered}
        return self._entries


def _written(entry: Named) -> str:
    """As a user writes it: with a number where it takes one."""
    return str(getattr(entry, "example", entry.name))
