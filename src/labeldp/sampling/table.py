"""What every integer table offers, and the few checks they share."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from labeldp.errors import InvalidInput

WORD_BITS = 64
TOTAL = 1 << WORD_BITS
"""What the weights of a row sum to: the number of values of one random word."""

MAX_ENTRIES = 20_000_000
"""The largest matrix, symbols times outputs, that is stored or shown whole."""

Codes = NDArray[np.uint32]
Words = NDArray[np.uint64]


class WorstRatio(NamedTuple):
    """The largest ratio of two symbols' probabilities of one output, exact, and where it occurs."""

    ratio: Fraction
    high_row: int
    low_row: int
    column: int


class Table(Protocol):
    """A distribution over output codes for each symbol, in integers out of 2^`scale_bits`."""

    @property
    def inputs(self) -> int: ...

    @property
    def outputs(self) -> int: ...

    @property
    def scale_bits(self) -> int: ...

    @property
    def needs_rounding(self) -> bool:
        """Whether `sample` needs a second word per label."""

    def sample(self, symbols: NDArray[np.uint32], words: Words, rounding_words: Words | None = None) -> Codes: ...

    def probabilities(self, symbols: ArrayLike | None = None) -> NDArray[np.float64]:
        """Rows of probabilities as floats, of all symbols or of those named. For show, never for sampling."""

    def weight(self, symbol: int, code: int) -> int: ...

    def weights(self) -> list[list[int]]: ...

    def worst_ratio(self) -> WorstRatio: ...

    def canonical(self) -> bytes:
        """The same bytes for the same distribution on every machine and in every version: the input of digests."""

    def to_json(self) -> dict[str, Any]: ...


class TableBase:
    """Equality and the exact weights, which follow from the other methods the same way for every table."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.canonical() == self.canonical()  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash(self.canonical())  # type: ignore[attr-defined]

    def weights(self) -> list[list[int]]:
        """Every weight as a Python integer, row by row."""
        table: Table = self  # type: ignore[assignment]
        check_entries(table.inputs, table.outputs)
        return [[table.weight(i, j) for j in range(table.outputs)] for i in range(table.inputs)]


def check_entries(inputs: int, outputs: int) -> None:
    if inputs * outputs > MAX_ENTRIES:
        raise InvalidInput(
            f"a table of {inputs:,} symbols × {outputs:,} outputs has more than {MAX_ENTRIES:,} entries: "
            "use fewer cells or fewer outputs"
        )


def check_index(symbol: int, code: int, inputs: int, outputs: int) -> None:
    if not (0 <= symbol < inputs and 0 <= code < outputs):
        raise InvalidInput(f"no entry ({symbol}, {code}) in a table of {inputs} symbols × {outputs} outputs")


def check_draw(symbols: NDArray[np.uint32], words: Words, inputs: int) -> None:
    """Kernels index by symbol without looking, so nothing out of range may reach them."""
    if symbols.dtype != np.uint32 or words.dtype != np.uint64:
        raise InvalidInput(f"symbols must be uint32 and words uint64, got {symbols.dtype} and {words.dtype}")
    if symbols.ndim != 1 or symbols.shape != words.shape:
        raise InvalidInput(f"one word per symbol is needed, got {symbols.shape} symbols and {words.shape} words")
    if symbols.size and (largest := int(symbols.max())) >= inputs:
        raise InvalidInput(f"symbol {largest} is outside of the table's {inputs} symbols")


def chosen_symbols(symbols: ArrayLike | None, inputs: int, outputs: int) -> NDArray[np.int64]:
    """The rows asked for in `probabilities`, all of them by default."""
    count = inputs if symbols is None else np.size(symbols)
    check_entries(count, outputs)
    rows = np.arange(inputs) if symbols is None else np.asarray(symbols, dtype=np.int64).reshape(-1)
    if rows.size and (rows.min() < 0 or rows.max() >= inputs):
        raise InvalidInput(f"symbols must lie in 0 … {inputs - 1}")
    return rows


def integer_from_json(text: object, what: str, *, least: int = 0, most: int = TOTAL) -> int:
    """A non-negative integer written as a decimal string; JSON numbers lose bits beyond 2^53 in most readers."""
    if not (isinstance(text, str) and 0 < len(text) <= 20 and text.isascii() and text.isdigit()):
        raise InvalidInput(f"{what} must be a whole number written as a string, got {text!r:.40}")
    value = int(text)
    if not least <= value <= most:
        raise InvalidInput(f"{what} must lie between {least} and {most}, got {value}")
    return value


def words_from_json(texts: object, what: str, *, least: int = 0) -> Words:
    if not isinstance(texts, list):
        raise InvalidInput(f"{what} must be a list, got {type(texts).__name__}")
    return np.array([integer_from_json(text, what, least=least, most=TOTAL - 1) for text in texts], dtype=np.uint64)


def count_from_json(value: object, what: str, *, least: int = 1) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 1 << 32:
        raise InvalidInput(f"{what} must be a whole number of at least {least} and below 2^32, got {value!r:.40}")
    return value


def exact_sum(values: Words) -> int:
    """The sum of 64-bit words without wrapping around."""
    low = int((values & np.uint64(0xFFFFFFFF)).sum(dtype=np.uint64))
    high = int((values >> np.uint64(32)).sum(dtype=np.uint64))
    return (high << 32) + low


def frozen_words(values: ArrayLike | Sequence[int]) -> Words:
    words = np.array(values, dtype=np.uint64, order="C")
    words.flags.writeable = False
    return words
