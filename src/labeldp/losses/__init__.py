"""Losses: what an output costs when the truth is a label. `get_loss` turns a name or a callable into one."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from typing import Any

from labeldp.errors import InvalidInput
from labeldp.losses.base import Loss
from labeldp.losses.custom import Custom
from labeldp.losses.gamma import Gamma
from labeldp.losses.huber import Huber
from labeldp.losses.interval import Interval
from labeldp.losses.pinball import Absolute, Pinball
from labeldp.losses.poisson import Poisson
from labeldp.losses.squared import Squared
from labeldp.losses.squared_log import SquaredLog

__all__ = [
    "LOSS_NAMES",
    "Absolute",
    "Custom",
    "Gamma",
    "Huber",
    "Interval",
    "Loss",
    "Pinball",
    "Poisson",
    "Squared",
    "SquaredLog",
    "get_loss",
]

_PLAIN: dict[str, Callable[[], Loss]] = {
    "squared": Squared,
    "absolute": Absolute,
    "poisson": Poisson,
    "gamma": Gamma,
    "squared-log": SquaredLog,
}
_WITH_NUMBER: dict[str, tuple[Callable[[float], Loss], str]] = {
    "pinball": (Pinball, "pinball(0.3)"),
    "huber": (Huber, "huber(1.5)"),
}
LOSS_NAMES = (*_PLAIN, *(example for _, example in _WITH_NUMBER.values()))
"""The names that `get_loss` knows; those with a number in parentheses take any number that suits them."""

_FORM = re.compile(r"\s*([A-Za-z][A-Za-z_ -]*?)\s*(?:\(\s*([^()]*?)\s*\))?\s*")


def get_loss(loss: str | Loss | Callable[[Any, Any], Any]) -> Loss:
    """The loss that `loss` names, is, or computes: a name such as "squared" or "pinball(0.3)", a `Loss`, a callable."""
    if isinstance(loss, Loss):
        return loss
    if isinstance(loss, str):
        return _named(loss)
    if callable(loss):
        return Custom(loss)
    raise InvalidInput(
        f"loss must be a name, a Loss or a callable (output, label), got {loss!r}. Names: {', '.join(LOSS_NAMES)}"
    )


def _named(text: str) -> Loss:
    form = _FORM.fullmatch(text)
    name = form[1].lower().replace("_", "-") if form else text
    number = form[2] if form else None
    if name in _PLAIN:
        if number is not None:
            raise InvalidInput(f"loss {name!r} takes no number, got {text!r}")
        return _PLAIN[name]()
    if name in _WITH_NUMBER:
        make, example = _WITH_NUMBER[name]
        try:
            value = float(number or "")
        except ValueError:
            raise InvalidInput(f"loss {name!r} needs a number, as in {example!r}, got {text!r}") from None
        return make(value)
    known = {**dict.fromkeys(_PLAIN), **dict.fromkeys(_WITH_NUMBER)}
    close = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.5)
    hint = f" Did you mean {_WITH_NUMBER[close[0]][1] if close[0] in _WITH_NUMBER else close[0]!r}?" if close else ""
    raise InvalidInput(f"unknown loss {text!r}.{hint} Known losses: {', '.join(LOSS_NAMES)}, or any callable")
