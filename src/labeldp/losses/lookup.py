"""Losses by name."""

import re

from labeldp.errors import InvalidInput, described
from labeldp.losses.custom import Custom
from labeldp.losses.loss import LOSSES, Loss, LossLike
from labeldp.plain_numbers import plain_number

_FORM = re.compile(r"\s*([A-Za-z][A-Za-z_ -]*?)\s*(?:\(\s*([^()]*?)\s*\))?\s*")

_ELSEWHERE = {
    "squared": "mse rmse l2 ls mean-squared-error root-mean-squared-error squared-error least-squares square gaussian",
    "absolute": "mae l1 lad mean-absolute-error absolute-error median abs laplace",
    "pinball(0.5)": "quantile quantile-loss check",
    "squared-log": "msle rmsle mean-squared-log-error squared-log-error log",
    "poisson": "poisson-deviance mean-poisson-deviance count",
    "gamma": "gamma-deviance mean-gamma-deviance",
    "huber(1.5)": "smooth-l1 huber-loss",
}
"""What other libraries call our losses."""


def loss_examples() -> list[str]:
    """Return the names of all losses as users write them, with an example of the number where a loss takes one.

    Returns
    -------
    list of str
        Each is understood by `get_loss`.

    Examples
    --------
    >>> from labeldp.losses import loss_examples
    >>> loss_examples()[:3]
    ['squared', 'absolute', 'poisson']
    """
    return [entry.example for entry in LOSSES]


def get_loss(loss: LossLike) -> Loss:
    """Return the loss with that name, or the loss that a function computes.

    Parameters
    ----------
    loss : str, Loss or callable
        A name such as "squared" or "pinball(0.3)", a `Loss`, or a callable (output, label).

    Returns
    -------
    Loss
        `loss` itself if it is one already.

    Raises
    ------
    InvalidInput
        If there is no loss of that name. The message suggests the nearest one.

    Examples
    --------
    >>> from labeldp.losses import get_loss
    >>> float(get_loss("pinball(0.9)")(output=2, label=3))
    0.9
    """
    if isinstance(loss, Loss):
        return loss
    if isinstance(loss, str):
        return _named(loss)
    if callable(loss):
        return Custom(loss)
    raise InvalidInput(
        f"loss must be a name, a Loss or a callable (output, label), got {described(loss)}. Names: {', '.join(loss_examples())}"
    )


def seeks_mean(loss: LossLike) -> bool:
    """Return whether the mean of the labels is the best answer.

    Parameters
    ----------
    loss : str, Loss or callable
        The loss.

    Returns
    -------
    bool

    Examples
    --------
    >>> from labeldp.losses import seeks_mean
    >>> seeks_mean("poisson"), seeks_mean("pinball(0.9)")
    (True, False)
    """
    entry = LOSSES.get(get_loss(loss).name)
    return entry is not None and entry.seeks_mean


def _named(text: str) -> Loss:
    form = _FORM.fullmatch(text)
    name, number = (form[1].lower().replace("_", "-"), form[2]) if form else (text, None)
    if LOSSES.get(name) is None:
        ours = next((ours for ours, others in _ELSEWHERE.items() if name.lower() in others.split()), None)
        if ours is not None:
            meant = re.sub(r"\(.*\)", f"({number})", ours) if number else ours
            raise InvalidInput(f"unknown loss {text!r}. Did you mean {meant!r}? Known: {', '.join(loss_examples())}.")
    entry = LOSSES[name]
    if not entry.takes_number:
        if number is not None:
            raise InvalidInput(f"loss {name!r} takes no number, got {text!r}")
        arguments = []
    else:
        try:
            arguments = [plain_number(number, "its number")]
        except InvalidInput:
            raise InvalidInput(f"loss {name!r} needs a finite number, as in {entry.example!r}, got {text!r}") from None
    made: Loss = entry.make(*arguments)
    return made
