"""The message: the folder that travels from the labels party to the features party, written and read here alone.

May import `mechanisms` and below. Known to `engines`, `release` and everything above them.
"""

from __future__ import annotations

from labeldp.message.reader import Message

__all__ = ["Message"]
