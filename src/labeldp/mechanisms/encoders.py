"""From labels to symbols: the part of a label that its private version depends on.

Encoders are deterministic functions of one label. That they compute in floats costs no privacy: the guarantee is over
symbols, and holds whichever symbol a label gets.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.arrays import Floats, frozen
from labeldp.domain import Domain
from labeldp.errors import InvalidInput
from labeldp.sampling import count_below

Symbols = NDArray[np.uint32]
LARGEST_OUTPUT = 1e150
"""No output and no threshold lies beyond this, so that its square is finite."""


@dataclass(frozen=True, eq=False)
class Thresholds:
    """Interval j holds the labels above j of the sorted thresholds; a label on a threshold goes below it.

    The symbol is the interval's number, or what `symbol_of` says for that interval.
    """

    thresholds: Floats
    symbol_of: Symbols | None = None

    def __post_init__(self) -> None:
        for name in ("thresholds", "symbol_of"):
            if (array := getattr(self, name)) is not None and array.ndim == 1:
                object.__setattr__(self, name, frozen(array))
        if self.thresholds.ndim != 1 or not (np.abs(self.thresholds) <= LARGEST_OUTPUT).all():
            raise InvalidInput(f"thresholds must be a flat list of numbers, none of them beyond {LARGEST_OUTPUT:g}")
        if (np.diff(self.thresholds) < 0).any():
            raise InvalidInput("thresholds must not decrease")
        if self.symbol_of is not None and self.symbol_of.size != self.thresholds.size + 1:
            raise InvalidInput("an encoder needs one symbol for each interval between its thresholds")

    @property
    def symbols(self) -> int:
        return self.thresholds.size + 1 if self.symbol_of is None else int(self.symbol_of.max()) + 1

    def encode(self, labels: Floats) -> Symbols:
        intervals = count_below(labels, self.thresholds)
        return intervals if self.symbol_of is None else self.symbol_of[intervals]

    def representatives(self) -> Floats:
        """One label for each interval: its upper threshold, and something above the last."""
        last = self.thresholds[-1] if self.thresholds.size else 0.0
        return np.append(self.thresholds, last + max(1.0, abs(last)))

    def canonical(self) -> bytes:
        chosen = b"" if self.symbol_of is None else self.symbol_of.astype("<u4").tobytes()
        return b"thresholds" + self.thresholds.astype("<f8").tobytes() + chosen

    def to_json(self) -> dict[str, Any]:
        record: dict[str, Any] = {"type": "thresholds", "thresholds": self.thresholds.tolist()}
        if self.symbol_of is not None:
            record["symbol_of"] = self.symbol_of.tolist()
        return record


@dataclass(frozen=True, eq=False)
class Grid:
    """The number of the nearest cell of a public grid."""

    domain: Domain

    @property
    def symbols(self) -> int:
        return self.domain.count

    def encode(self, labels: Floats) -> Symbols:
        return self.domain.cell(labels)

    def representatives(self) -> Floats:
        """One label for each cell."""
        return self.domain.grid

    def canonical(self) -> bytes:
        frame = np.asarray([self.domain.lower, self.domain.upper], "<f8").tobytes()
        return b"grid" + frame + self.domain.count.to_bytes(8, "little")

    def to_json(self) -> dict[str, Any]:
        return {"type": "grid", "domain": self.domain.to_json()}


Encoder = Thresholds | Grid


def encoder_from_json(record: dict[str, Any]) -> Encoder:
    if record["type"] == "thresholds":
        chosen = record.get("symbol_of")
        symbols = None if chosen is None else np.asarray(chosen, np.uint32)
        return Thresholds(np.asarray(record["thresholds"], np.float64), symbols)
    if record["type"] == "grid":
        return Grid(Domain(*record["domain"]))
    raise InvalidInput(f"unknown encoder type {record['type']!r}")
