"""What every integer table offers, and the checks that tables share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from labeldp.errors import InvalidInput

WORD_BITS = 64
TOTAL = 1 << WORD_BITS
"""What the weights of a row sum to: the number of values of one random word."""

MAX_ENTRIES = 20_000_000
"""The largest number of entries, symbols times outputs, that a table stores or shows as a whole."""

Codes = NDArray[np.uint32]
Words = NDArray[np.uint64]


class Table(ABC):
    """A distribution over output codes for each symbol, in integers out of 2^`scale_bits`.

    A *symbol* is the input of a mechanism as a small integer, a *code* is the number of an output.

    Attributes
    ----------
    inputs, outputs : int
        The number of symbols and of codes.
    scale_bits : int
        The weights of a row sum to 2 to this power.
    needs_rounding : bool
        Whether `sample` needs a second word per label.

    Examples
    --------
    >>> from labeldp.sampling import ResponseTable, Table
    >>> table = ResponseTable(outputs=4, epsilon=1)
    >>> isinstance(table, Table), table.inputs, table.scale_bits
    (True, 4, 64)
    """

    __slots__ = ()

    scale_bits: ClassVar[int] = WORD_BITS
    needs_rounding: ClassVar[bool] = False

    @property
    @abstractmethod
    def inputs(self) -> int:
        """The number of symbols."""

    @property
    @abstractmethod
    def outputs(self) -> int:
        """The number of codes."""

    @abstractmethod
    def worst_ratio(self) -> WorstRatio:
        """The largest ratio between two symbols' probabilities of one output; the table is ε-DP if it is at most e^ε."""

    @abstractmethod
    def canonical(self) -> bytes:
        """The bytes that digests are made of: the same for the same table on every machine and in every version."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """The table as a JSON object, from which `table_from_json` makes it again."""

    @abstractmethod
    def _fill(self, codes: Codes, symbols: NDArray[np.uint32], words: Words, rounding_words: Words) -> None:
        """Write the codes drawn; called for two outputs or more, with checked arguments."""

    @abstractmethod
    def _probabilities(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Rows of probabilities; called with symbols of the table."""

    @abstractmethod
    def _weight(self, symbol: int, code: int) -> int:
        """One weight; called with a symbol and a code of the table."""

    def sample(self, symbols: NDArray[np.uint32], words: Words, rounding_words: Words | None = None) -> Codes:
        """The output codes that uniform random words decide on.

        Parameters
        ----------
        symbols : array of uint32
            The symbol of each label.
        words : array of uint64
            A uniform word for each label.
        rounding_words : array of uint64, optional
            A second word for each label, if the table `needs_rounding`.

        Returns
        -------
        array of uint32
            The code of each label.

        Raises
        ------
        InvalidInput
            If the arrays differ in length, have another type, or hold a symbol outside of the table.

        Privacy
        -------
        If the words are uniform and independent, each code has exactly the distribution that the weights state.
        """
        self._check_draw(symbols, words)
        if self.needs_rounding:
            if rounding_words is None:
                raise InvalidInput(f"{self!r} needs rounding words: draw with rounding=True")
            self._check_draw(symbols, rounding_words)
        codes = np.zeros(symbols.shape, dtype=np.uint32)
        if self.outputs > 1:
            self._fill(codes, symbols, words, words if rounding_words is None else rounding_words)
        return codes

    def probabilities(self, symbols: ArrayLike | None = None) -> NDArray[np.float64]:
        """The probabilities as floats, for display and estimates. Sampling never uses them.

        Parameters
        ----------
        symbols : array-like of int, optional
            The symbols whose rows are wanted; all of them by default.

        Returns
        -------
        array of float64
            One row per symbol, one column per code.

        Raises
        ------
        InvalidInput
            If a symbol is outside of the table, or the matrix would have more than 20,000,000 entries.
        """
        check_entries(self.inputs if symbols is None else np.size(symbols), self.outputs)
        rows = np.arange(self.inputs) if symbols is None else np.asarray(symbols, dtype=np.int64).reshape(-1)
        if rows.size and (rows.min() < 0 or rows.max() >= self.inputs):
            raise InvalidInput(f"symbols must lie in 0 … {self.inputs - 1}")
        return self._probabilities(rows)

    def weight(self, symbol: int, code: int) -> int:
        """The probability of a code given a symbol, times 2^`scale_bits`, exactly.

        Parameters
        ----------
        symbol : int
            The row.
        code : int
            The column.

        Returns
        -------
        int
            A positive integer.
        """
        if not (0 <= symbol < self.inputs and 0 <= code < self.outputs):
            raise InvalidInput(
                f"no entry ({symbol}, {code}) in a table of {self.inputs} symbols × {self.outputs} outputs"
            )
        return self._weight(symbol, code)

    def weights(self) -> list[list[int]]:
        """Every weight as a Python integer, row by row."""
        check_entries(self.inputs, self.outputs)
        return [[self._weight(i, j) for j in range(self.outputs)] for i in range(self.inputs)]

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and isinstance(other, Table) and other.canonical() == self.canonical()

    def __hash__(self) -> int:
        return hash(self.canonical())

    def _check_draw(self, symbols: NDArray[np.uint32], words: Words) -> None:
        """The compiled loops index by symbol without a check, so nothing out of range may reach them."""
        if symbols.dtype != np.uint32 or words.dtype != np.uint64:
            raise InvalidInput(f"symbols must be uint32 and words uint64, got {symbols.dtype} and {words.dtype}")
        if symbols.ndim != 1 or symbols.shape != words.shape:
            raise InvalidInput(f"one word per symbol is needed, got {symbols.shape} symbols and {words.shape} words")
        if symbols.size and (largest := int(symbols.max())) >= self.inputs:
            raise InvalidInput(f"symbol {largest} is outside of the table's {self.inputs} symbols")


class WorstRatio(NamedTuple):
    """The largest ratio between two symbols' probabilities of one output, and where it occurs.

    Attributes
    ----------
    ratio : fractions.Fraction
        The exact ratio.
    high_row, low_row : int
        The symbols with the larger and the smaller probability.
    column : int
        The output.

    Examples
    --------
    >>> from labeldp.sampling import ResponseTable
    >>> worst = ResponseTable(outputs=4, epsilon=1).worst_ratio()
    >>> float(worst.ratio)
    2.718281828459045
    """

    ratio: Fraction
    high_row: int
    low_row: int
    column: int


def check_entries(inputs: int, outputs: int) -> None:
    """Raise `InvalidInput` if a matrix of this size is too large."""
    if inputs * outputs > MAX_ENTRIES:
        raise InvalidInput(
            f"a table of {inputs:,} symbols × {outputs:,} outputs has more than {MAX_ENTRIES:,} entries: "
            "use fewer cells or fewer outputs"
        )


def integer_from_json(text: object, what: str, *, least: int = 0, most: int = TOTAL) -> int:
    """An integer from a decimal string. JSON numbers would lose bits beyond 2^53 in most readers."""
    if not (isinstance(text, str) and 0 < len(text) <= 20 and text.isascii() and text.isdigit()):
        raise InvalidInput(f"{what} must be a whole number written as a string, got {text!r:.40}")
    value = int(text)
    if not least <= value <= most:
        raise InvalidInput(f"{what} must lie between {least} and {most}, got {value}")
    return value


def words_from_json(texts: object, what: str, *, least: int = 0) -> Words:
    """An array of words from a list of decimal strings."""
    if not isinstance(texts, list):
        raise InvalidInput(f"{what} must be a list, got {type(texts).__name__}")
    return np.array([integer_from_json(text, what, least=least, most=TOTAL - 1) for text in texts], dtype=np.uint64)


def count_from_json(value: object, what: str, *, least: int = 1) -> int:
    """A number of cells or outputs, which JSON holds as a plain number."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 1 << 32:
        raise InvalidInput(f"{what} must be a whole number of at least {least} and below 2^32, got {value!r:.40}")
    return value


def exact_sum(values: Words) -> int:
    """The sum of 64-bit words as a Python integer, which does not wrap around."""
    low = int((values & np.uint64(0xFFFFFFFF)).sum(dtype=np.uint64))
    high = int((values >> np.uint64(32)).sum(dtype=np.uint64))
    return (high << 32) + low


def frozen_words(values: ArrayLike | Sequence[int]) -> Words:
    """A read-only copy as 64-bit words."""
    words = np.array(values, dtype=np.uint64, order="C")
    words.flags.writeable = False
    return words
