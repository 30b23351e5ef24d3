"""Tables of integer probabilities: their common interface, randomized response, and windows.

Tables for any matrix are in `weight_tables`, tables for noise on a grid in `noise_tables`.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from labeldp.budget import Epsilon, decimal_text, exact_epsilon, exp_lower
from labeldp.errors import InvalidInput, PrivacyRefused
from labeldp.sampling._kernels import count_below_few, sample_response, sample_window

WORD_BITS = 64
TOTAL = 1 << WORD_BITS
"""The sum of the weights of a row: the number of values of one random word."""

MAX_ENTRIES = 20_000_000
"""The largest number of entries, symbols times outputs, that a table can store or return at once."""

FEW = 24
"""Up to this many thresholds, counting is faster than bisection."""
BLOCK = 1 << 14
"""Labels per pass over the thresholds, so that a block stays in the first-level cache."""

Codes = NDArray[np.uint32]
Words = NDArray[np.uint64]


class Table(ABC):
    """A distribution over output codes for each symbol, in integers out of 2^`scale_bits`.

    A *symbol* is the input of a mechanism as a small integer, a *code* is the number of an output. Tables are immutable.

    Attributes
    ----------
    kind : str
        Its name in JSON.
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

    kind: ClassVar[str]
    scale_bits: ClassVar[int] = WORD_BITS
    needs_rounding: ClassVar[bool] = False
    inputs: int
    outputs: int

    def __init_subclass__(cls) -> None:
        if "kind" in cls.__dict__:
            _KINDS[cls.kind] = cls

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a table is immutable: cannot set {name!r}")

    def _store(self, **fields: Any) -> None:
        """Set the fields, as constructors do."""
        self.__dict__.update(fields)

    @abstractmethod
    def worst_ratio(self) -> WorstRatio:
        """Return the largest ratio between two symbols' probabilities of one output; the table is ε-DP if it is at most e^ε."""

    @abstractmethod
    def canonical(self) -> bytes:
        """Return the bytes that digests are made of: the same for the same table on every machine and in every version."""

    @abstractmethod
    def _to_json(self) -> dict[str, Any]:
        """Return the fields of the table, ready for JSON."""

    @classmethod
    @abstractmethod
    def _from_json(cls, data: dict[str, Any]) -> Self:
        """Return the table with these fields, all of them checked. Its ε is not checked; `worst_ratio` returns it."""

    @abstractmethod
    def _fill(self, codes: Codes, symbols: NDArray[np.uint32], words: Words, rounding_words: Words) -> None:
        """Write the codes drawn. Called for two outputs or more, with checked arguments."""

    @abstractmethod
    def _probabilities(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return rows of probabilities. Called with symbols of the table."""

    @abstractmethod
    def _weight(self, symbol: int, code: int) -> int:
        """Return one weight. Called with a symbol and a code of the table."""

    def to_json(self) -> dict[str, Any]:
        """Return the table as a JSON object that `table_from_json` can read."""
        return {"kind": self.kind, **self._to_json()}

    @classmethod
    def from_json(cls, data: object) -> Table:
        """Return a table of any kind, as `table_from_json` does.

        Parameters
        ----------
        data : object
            A value from `to_json`.

        Returns
        -------
        Table
        """
        return table_from_json(data)

    def sample(self, symbols: NDArray[np.uint32], words: Words, rounding_words: Words | None = None) -> Codes:
        """Return the output codes that uniform random words select.

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
            If the arrays differ in length, have another type, or contain a symbol outside of the table.

        Privacy
        -------
        If the words are uniform and independent, each code has exactly the distribution that the weights
        define.
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
        """Return the probabilities as floats, for display and estimates. Sampling never uses them.

        Parameters
        ----------
        symbols : array-like of int, optional
            The symbols whose rows to return; all of them by default.

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
        """Return the probability of a code given a symbol, times 2^`scale_bits`, exactly.

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
        """Return every weight as a Python integer, row by row."""
        check_entries(self.inputs, self.outputs)
        return [[self._weight(i, j) for j in range(self.outputs)] for i in range(self.inputs)]

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and isinstance(other, Table) and other.canonical() == self.canonical()

    def __hash__(self) -> int:
        return hash(self.canonical())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.inputs} symbols × {self.outputs} outputs)"

    def _check_draw(self, symbols: NDArray[np.uint32], words: Words) -> None:
        """Raise `InvalidInput` unless symbols and words fit: the compiled loops index by symbol without a check."""
        if symbols.dtype != np.uint32 or words.dtype != np.uint64:
            raise InvalidInput(f"symbols must be uint32 and words uint64, got {symbols.dtype} and {words.dtype}")
        if symbols.ndim != 1 or symbols.shape != words.shape:
            raise InvalidInput(f"one word per symbol is needed, got {symbols.shape} symbols and {words.shape} words")
        if symbols.size and (largest := int(symbols.max())) >= self.inputs:
            raise InvalidInput(f"symbol {largest} is outside of the table's {self.inputs} symbols")


_KINDS: dict[str, type[Table]] = {}


class WorstRatio(NamedTuple):
    """The largest ratio between two symbols' probabilities of one output, and where it occurs.

    Attributes
    ----------
    ratio : fractions.Fraction
        The exact ratio.
    high_row, low_row : int
        The symbols with the larger and smaller probability.
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


def table_from_json(data: object) -> Table:
    """Return the table that a JSON object describes. The object is not trusted: everything is checked again.

    Parameters
    ----------
    data : object
        The result of `Table.to_json`, possibly read from a file.

    Returns
    -------
    Table
        A valid table. Its ε is not checked here; `labeldp.mechanisms.verify` does that.

    Raises
    ------
    InvalidInput
        If it is not a table, or its weights do not add up.

    Examples
    --------
    >>> from labeldp.sampling import ResponseTable, table_from_json
    >>> table = ResponseTable(outputs=3, epsilon=1)
    >>> table_from_json(table.to_json()) == table
    True
    """
    if not isinstance(data, dict):
        raise InvalidInput(f"a table is described by a JSON object, got {type(data).__name__}")
    kind = data.get("kind")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise InvalidInput(f"unknown kind of table {kind!r:.40}: it must be one of {', '.join(_KINDS)}")
    return _KINDS[kind]._from_json(data)  # noqa: SLF001 - same module


class WindowTable(Table):
    """The `window` codes from the symbol on have weight `inside` each, all other codes have weight `outside`, out of 2^64.

    There are `inputs + window − 1` codes, so that every symbol has a whole window. The remainder of 2^64 is smaller
    than the number of codes in a window. It goes to the first codes of the window, one unit each. Sampling takes O(1)
    time and no memory.

    Parameters
    ----------
    inputs : int
        The number of symbols.
    window : int
        The number of codes with the higher weight.
    epsilon : float, int, str, Decimal or Fraction
        The guarantee.

    Raises
    ------
    PrivacyRefused
        If 64 bits are too few for this number of outputs at this ε.

    Privacy
    -------
    One draw is ε-DP in its symbol: `inside + 1 <= e^ε · outside`, or `inside <= e^ε · outside` where nothing is left over,
    holds exactly for the integers that are sampled.

    Examples
    --------
    >>> from labeldp.sampling import WindowTable
    >>> WindowTable(inputs=3, window=2, epsilon=1).probabilities().round(3).tolist()
    [[0.366, 0.366, 0.134, 0.134], [0.134, 0.366, 0.366, 0.134], [0.134, 0.134, 0.366, 0.366]]
    """

    kind = "window"
    window: int
    inside: int
    outside: int
    _spare: int

    def __init__(self, inputs: int, window: int, epsilon: Epsilon) -> None:
        _check_window(inputs, window)
        self._set(inputs, window, *_window_weights(inputs, window, exact_epsilon(epsilon)))

    @classmethod
    def from_weights(cls, inputs: int, window: int, inside: int, outside: int) -> WindowTable:
        """Return the table with these integers, `outside <= inside`. The remainder of 2^64 must be smaller than `window`."""
        table = WindowTable.__new__(cls)
        table._set(inputs, window, inside, outside)  # noqa: SLF001 - same class
        return table

    def _set(self, inputs: int, window: int, inside: int, outside: int) -> None:
        _check_window(inputs, window)
        spare = TOTAL - window * inside - (inputs - 1) * outside
        if not 0 <= spare < window:
            raise InvalidInput(
                f"{window} × inside + {inputs - 1} × outside must be 2^64 or at most {window - 1} less, got inside = {inside} "
                f"and outside = {outside}"
            )
        if inside < 1 or (inputs > 1 and not 1 <= outside <= inside) or (inputs == 1 and outside):
            raise InvalidInput(
                f"weights must satisfy 1 <= outside <= inside, and outside = 0 for one symbol, got inside = {inside} and "
                f"outside = {outside}"
            )
        self._store(inputs=int(inputs), outputs=int(inputs + window - 1), window=int(window))
        self._store(inside=int(inside), outside=int(outside), _spare=int(spare))

    def _fill(self, codes: Codes, symbols: NDArray[np.uint32], words: Words, rounding_words: Words) -> None:  # noqa: ARG002
        numbers = (self.window, self.inside, self.outside, self._spare)
        sample_window(symbols, words, *(np.uint64(number) for number in numbers), codes)

    def _probabilities(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        place = np.arange(self.outputs) - rows[:, np.newaxis]
        matrix = np.full(place.shape, self.outside / TOTAL)
        matrix[(place >= 0) & (place < self.window)] = self.inside / TOTAL
        matrix[(place >= 0) & (place < self._spare)] = (self.inside + 1) / TOTAL
        return matrix

    def _weight(self, symbol: int, code: int) -> int:
        if not symbol <= code < symbol + self.window:
            return self.outside
        return self.inside + (code - symbol < self._spare)

    def debiased(self, means: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return values t for the codes whose expectation, given a symbol, is the mean of that symbol. O(outputs).

        Neighbouring windows differ by one code at either end, so the means fix every t_{s+window} − t_s. One number per
        code of the first window remains free. These numbers minimise the variance, averaged over the symbols.

        Parameters
        ----------
        means : array of float64
            The mean μ of each symbol.

        Returns
        -------
        array of float64
            The value t of each code.
        """
        window, outside = self.window, self.outside / TOTAL
        gap = (self.inside - self.outside) / TOTAL
        climb = np.zeros((-(-self.outputs // window), window))  # code by code, in rows of one window
        climb.reshape(-1)[window : self.outputs] = np.diff(means) / gap
        climb = np.cumsum(climb, axis=0).reshape(-1)[: self.outputs]
        code = np.arange(self.outputs)
        covered = np.minimum(np.minimum(code + 1, self.outputs - code), min(window, self.inputs))
        chance = outside + gap * covered / self.inputs
        column = code % window
        chances = np.bincount(column, chance, window)
        start = -np.bincount(column, chance * climb, window) / chances
        share = outside * np.bincount(column, minlength=window) + gap
        missing = means[0] - outside * climb.sum() - share @ start
        start += missing * (share / chances) / (share @ (share / chances))
        return np.asarray(start[column] + climb)

    def worst_ratio(self) -> WorstRatio:
        """Return the first code of the first window against the same code outside of the second one; 1 for a single symbol."""
        if self.inputs == 1:
            return WorstRatio(Fraction(1), 0, 0, 0)
        return WorstRatio(Fraction(self._weight(0, 0), self.outside), 0, 1, 0)

    def canonical(self) -> bytes:
        return canonical_bytes("window", (self.inputs, self.window, self.inside - 1, self.outside))

    def _to_json(self) -> dict[str, Any]:
        weights = {"inside": str(self.inside), "outside": str(self.outside)}
        return {"inputs": self.inputs, "window": self.window, **weights}

    @classmethod
    def _from_json(cls, data: dict[str, Any]) -> Self:
        counts = (count_from_json(data.get(name), name) for name in ("inputs", "window"))
        weights = (integer_from_json(data.get(name), name) for name in ("inside", "outside"))
        return cls.from_weights(*counts, *weights)  # type: ignore[return-value]

    def __repr__(self) -> str:
        return f"WindowTable(inputs={self.inputs}, window={self.window}, inside={self.inside}, outside={self.outside})"


class ResponseTable(WindowTable):
    """Randomized response: the symbol itself has weight `keep` and every other output has weight `other`, out of 2^64.

    This is a window of one code. A table with one output does not need randomness and reveals nothing.

    Parameters
    ----------
    outputs : int
        The number of symbols, which is also the number of outputs.
    epsilon : float, int, str, Decimal or Fraction
        The guarantee.

    Raises
    ------
    PrivacyRefused
        If 64 bits are too few for this number of outputs at this ε.

    Privacy
    -------
    One draw is ε-DP in its symbol: `keep <= e^ε · other` holds exactly, in rational arithmetic, for the integers that are
    sampled. `other` is the smallest integer for which a lower bound of e^ε proves it, so each probability differs from the
    ideal one by less than 2^-64 per output.

    Examples
    --------
    >>> from labeldp.sampling import ResponseTable
    >>> table = ResponseTable(outputs=3, epsilon="0.5")
    >>> table.probabilities([0]).round(3).tolist()
    [[0.452, 0.274, 0.274]]
    """

    kind = "response"

    def __init__(self, outputs: int, epsilon: Epsilon) -> None:
        super().__init__(outputs, 1, epsilon)

    @property
    def keep(self) -> int:
        """The weight of the symbol itself, out of 2^64."""
        return self.inside

    @property
    def other(self) -> int:
        """The weight of each other output, out of 2^64."""
        return self.outside

    def _fill(self, codes: Codes, symbols: NDArray[np.uint32], words: Words, rounding_words: Words) -> None:  # noqa: ARG002
        sample_response(symbols, words, np.uint64(self.keep), np.uint64(self.other), codes)

    def debiased(self, means: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return values t for the outputs whose expectation, given a symbol, is the mean of that symbol.

        With p = keep/2^64 and q = other/2^64, they are t_j = (μ_j − q·Σμ)/(p − q).

        Parameters
        ----------
        means : array of float64
            The mean μ of each symbol.

        Returns
        -------
        array of float64
            The value t of each output.
        """
        other, gap = self.other / TOTAL, (self.keep - self.other) / TOTAL
        return np.asarray((means - other * means.sum()) / gap)

    def canonical(self) -> bytes:
        return canonical_bytes("response", (self.outputs, self.keep - 1, self.other))

    def _to_json(self) -> dict[str, Any]:
        return {"outputs": self.outputs, "keep": str(self.keep), "other": str(self.other)}

    @classmethod
    def _from_json(cls, data: dict[str, Any]) -> Self:
        keep, other = (integer_from_json(data.get(name), name) for name in ("keep", "other"))
        return cls.from_weights(count_from_json(data.get("outputs"), "outputs"), 1, keep, other)  # type: ignore[return-value]

    def __repr__(self) -> str:
        return f"ResponseTable(outputs={self.outputs}, keep={self.keep}, other={self.other})"


def _check_window(inputs: int, window: int) -> None:
    if inputs < 1 or window < 1 or inputs + window - 1 >= 1 << 32:
        raise InvalidInput(
            f"a table needs at least one symbol, a window of at least one code and fewer than 2^32 codes, got {inputs} "
            f"symbols and a window of {window}"
        )


def _window_weights(inputs: int, window: int, epsilon: Fraction) -> tuple[int, int]:
    """Return `inside` and `outside = ⌈(2^64 + w − 1) / (w·E + k − 1)⌉`. Then the rest per code of the window, rounded up, is <= E·outside."""
    if inputs == 1:
        return TOTAL // window, 0
    denominator = window * exp_lower(epsilon) + inputs - 1
    outside = -(-(TOTAL + window - 1) * denominator.denominator // denominator.numerator)
    inside = (TOTAL - (inputs - 1) * outside) // window
    if inside < outside:
        raise PrivacyRefused(
            f"64 random bits cannot distinguish {inputs + window - 1:,} outputs at epsilon = {decimal_text(epsilon)}: "
            "the outputs near the label would come out less often than the others. Use fewer outputs or a larger epsilon"
        )
    return inside, outside


def check_entries(inputs: int, outputs: int) -> None:
    """Raise `InvalidInput` if a matrix of this size is too large."""
    if inputs * outputs > MAX_ENTRIES:
        raise InvalidInput(
            f"a table of {inputs:,} symbols × {outputs:,} outputs has more than {MAX_ENTRIES:,} entries: "
            "use fewer cells or fewer outputs"
        )


def canonical_bytes(kind: str, integers: Sequence[int], *arrays: NDArray[Any]) -> bytes:
    """Return a header with 64-bit integers, then the bytes of unsigned arrays, all little-endian."""
    header = f"labeldp {kind} table 1\0".encode() + struct.pack(f"<{len(integers)}Q", *integers)
    return header + b"".join(array.astype(array.dtype.newbyteorder("<")).tobytes() for array in arrays)


def integer_from_json(text: object, what: str, *, least: int = 0, most: int = TOTAL) -> int:
    """Return an integer from a decimal string. JSON numbers would lose bits beyond 2^53 in most readers."""
    if not (isinstance(text, str) and 0 < len(text) <= 20 and text.isascii() and text.isdigit()):
        raise InvalidInput(f"{what} must be a whole number written as a string, got {text!r:.40}")
    value = int(text)
    if not least <= value <= most:
        raise InvalidInput(f"{what} must lie between {least} and {most}, got {value}")
    return value


def words_from_json(texts: object, what: str, *, least: int = 0) -> Words:
    """Return an array of words from a list of decimal strings."""
    if not isinstance(texts, list):
        raise InvalidInput(f"{what} must be a list, got {type(texts).__name__}")
    return np.array([integer_from_json(text, what, least=least, most=TOTAL - 1) for text in texts], dtype=np.uint64)


def count_from_json(value: object, what: str, *, least: int = 1) -> int:
    """Return a number of cells or outputs, which JSON stores as a plain number."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 1 << 32:
        raise InvalidInput(f"{what} must be a whole number of at least {least} and below 2^32, got {value!r:.40}")
    return value


def exact_sum(values: Words) -> int:
    """Return the sum of 64-bit words as a Python integer, which does not wrap around."""
    low = int((values & np.uint64(0xFFFFFFFF)).sum(dtype=np.uint64))
    high = int((values >> np.uint64(32)).sum(dtype=np.uint64))
    return (high << 32) + low


def frozen_words(values: ArrayLike | Sequence[int]) -> Words:
    """Return a read-only copy as 64-bit words."""
    words = np.array(values, dtype=np.uint64, order="C")
    words.flags.writeable = False
    return words


def count_below(labels: NDArray[np.float64], thresholds: NDArray[np.float64]) -> NDArray[np.uint32]:
    """Return the number of thresholds below each label: `np.searchsorted(thresholds, labels)`, much faster for few thresholds.

    Parameters
    ----------
    labels : array of float64
        The labels. NaN gives 0, so validate them first.
    thresholds : array of float64
        The thresholds in increasing order. A label equal to a threshold is not above it.

    Returns
    -------
    array of uint32
        A symbol for each label.

    Examples
    --------
    >>> import numpy as np
    >>> from labeldp.sampling import count_below
    >>> count_below(np.array([0.5, 2.0, 9.0]), np.array([2.0, 5.0])).tolist()
    [0, 0, 2]
    """
    if thresholds.size > FEW:
        return np.searchsorted(thresholds, labels, side="left").astype(np.uint32)
    labels = np.ascontiguousarray(labels, dtype=np.float64)
    thresholds = np.ascontiguousarray(thresholds, dtype=np.float64)
    symbols = np.empty(labels.shape, dtype=np.uint32)
    for start in range(0, labels.size, BLOCK):
        count_below_few(labels[start : start + BLOCK], thresholds, symbols[start : start + BLOCK])
    return symbols
