"""A catalogue: entries by name, each declared next to the code it describes and found without a central list."""

from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from importlib import import_module
from pkgutil import iter_modules
from typing import Generic, Protocol, TypeVar

from labeldp.errors import InvalidInput, described


class Named(Protocol):
    """An entry of a catalogue: anything with a name. `rank` and `example` are optional."""

    @property
    def name(self) -> str: ...


E = TypeVar("E", bound=Named)


class Catalogue(Generic[E]):
    """Entries by name, sorted by their `rank` and then by name.

    The modules of `package` add their entries when they are imported. The first lookup imports all of them, so a new
    entry only needs one new file in the package.

    Parameters
    ----------
    what : str
        What an entry is, for error messages: "mechanism".
    package : str
        The package whose modules define the entries.

    Examples
    --------
    >>> from labeldp.losses import LOSSES
    >>> LOSSES["pinball"].example
    'pinball(0.3)'
    >>> LOSSES["sqared"]  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    labeldp.errors.InvalidInput: unknown loss 'sqared'. Did you mean 'squared'? Known: squared, absolute, poisson, ...
    """

    def __init__(self, what: str, package: str) -> None:
        self._what, self._package = what, package
        self._entries: dict[str, E] = {}
        self._complete = False

    def add(self, entry: E) -> E:
        """Add `entry` and return it. Raise `ValueError` if the name is taken."""
        if entry.name in self._entries:
            raise ValueError(f"there are two entries for the {self._what} {entry.name!r}")
        self._entries[entry.name] = entry
        return entry

    def discard(self, name: str) -> None:
        """Remove an entry, for tests that added one."""
        self._entries.pop(name, None)

    def get(self, name: object) -> E | None:
        """Return the entry of that name, or None."""
        return self._all().get(name) if isinstance(name, str) else None

    def __getitem__(self, name: str) -> E:
        """Return the entry of that name. If it does not exist, the error suggests the nearest name."""
        entry = self.get(name)
        if entry is None:
            raise self.unknown(name, self)
        return entry

    def unknown(self, name: object, entries: Iterable[E]) -> InvalidInput:
        """Return the error for an unknown name, with the nearest of these entries."""
        known = {entry.name: _as_written(entry) for entry in entries}
        close = get_close_matches(str(name).lower(), known, n=1, cutoff=0.5)
        hint = f" Did you mean {known[close[0]]!r}?" if close else ""
        return InvalidInput(f"unknown {self._what} {described(name)}.{hint} Known: {', '.join(known.values())}.")

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


def _as_written(entry: Named) -> str:
    """Return the name as a user writes it, with a number if it takes one."""
    return str(getattr(entry, "example", entry.name))
