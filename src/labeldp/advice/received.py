"""What a received message tells about labels in general: bounds, number of records and the public prior."""

from __future__ import annotations

import os

from labeldp.domain import Domain
from labeldp.errors import InvalidInput
from labeldp.message import Message
from labeldp.priors import Prior


def known_from_message(path: str | os.PathLike[str]) -> tuple[Domain, int, Prior]:
    """Bounds, number of records and prior of a message. Its private labels are not read.

    Parameters
    ----------
    path : str or Path
        The message's folder.

    Returns
    -------
    domain : Domain
        The bounds of the labels.
    records : int
        The number of records.
    prior : Prior
        The distribution that the mechanism was designed for.

    Raises
    ------
    InvalidInput
        If the folder is not a message, or its mechanism was not designed for a prior.
    """
    message = Message.open(path)
    prior, domain = message.mechanism.prior, message.mechanism.domain
    if prior is None:
        raise InvalidInput(
            f"the mechanism of {path} was not designed for a prior, so the message has none: give bounds and a shape instead "
            "(--lower, --upper, --shape)"
        )
    return domain or Domain(float(prior.values[0]), float(prior.values[-1])), message.records, prior
