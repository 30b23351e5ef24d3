"""The list of types that a model file may hold. A name in a file picks one of these entries and nothing else."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from labeldp.errors import InvalidInput, MissingExtra

State = dict[str, Any]
TEXT_PARAMETER = re.compile(r"[a-z0-9_:]{1,40}")
"""The name of an objective or a method. Paths and lists of settings do not match."""
THREADS = frozenset({"num_threads", "num_thread", "nthread", "nthreads"})
"""Other names of `n_jobs`. A process ends where it cannot start the threads that a file asks for."""


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
    "labeldp.paper.network.network_file",
)
"""The modules that enter types, imported when a model is saved or loaded. The last is named only, as its room lies above."""
_OPTIONAL = {
    "LGBMRegressor": ("lightgbm", "labeldp.training.stored.lightgbm_text"),
    "XGBRegressor": ("xgboost", "labeldp.training.stored.xgboost_json"),
}
"""Types of packages that need not be installed: the package, and the module that enters the type. It is imported when it is needed."""


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
    if isinstance(name, str) and name in _OPTIONAL:
        package, home = _OPTIONAL[name]
        if find_spec(package) is None:
            raise MissingExtra(f"the model is a {name}, which needs the package {package}: pip install {package}")
        import_module(home)
    return next((kind for kind in _entries() if kind.name == name), None)


def kind_of(value: object) -> Kind | None:
    """The entry for a value's type, or None."""
    package, home = _OPTIONAL.get(type(value).__name__, ("", ""))
    if package and type(value).__module__.partition(".")[0] == package:
        import_module(home)
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


def plain_parameters(model: Any) -> State:
    """The parameters of an estimator of another package, which must be numbers, yes or no, or names such as "poisson"."""
    found = {}
    own = _constructor_names(type(model))
    for name, value in model.get_params(deep=False).items():
        plain = value.item() if isinstance(value, np.generic) else value
        if not is_plain_parameter(name, plain, own):
            raise NotStorable(
                f"the parameter {name} of {type(model).__name__} is a {type(value).__name__} that cannot be stored: use a number, "
                "True or False, or one of the names that the package documents"
            )
        found[name] = plain
    return found


def is_plain_parameter(name: str, value: object, own: Collection[str]) -> bool:
    """Whether a parameter may be stored. Text is allowed only for the parameters that the constructor names (`own`)."""
    if isinstance(value, str):
        return name in own and TEXT_PARAMETER.fullmatch(value) is not None
    return TEXT_PARAMETER.fullmatch(name) is not None and (value is None or isinstance(value, (bool, int, float)))


def with_parameters(kind: type, state: object) -> Any:
    """An estimator of another package with parameters from a file. It may use as many threads as it likes by default."""
    own = _constructor_names(kind)
    parameters = is_a(state, dict, what="the parameters")
    for name, value in parameters.items():
        hides = name not in own and (name.startswith("_") or hasattr(kind, name))  # a method, or what fitting found
        if hides or not is_plain_parameter(name, value, own) or name in THREADS:
            raise InvalidInput(f"the parameter {name!r:.60} has a value that it cannot have")
    return kind(**{**parameters, "n_jobs": None})


def _constructor_names(kind: type) -> frozenset[str]:
    """The parameters that the constructors of a class and its base classes name."""
    made = [vars(base)["__init__"] for base in kind.__mro__ if "__init__" in vars(base)]
    return frozenset(name for function in made for name in inspect.signature(function).parameters)
