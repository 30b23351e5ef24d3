"""The inner loops of the tables, on unsigned 64-bit integers only."""

from typing import Any

import numpy as np

from labeldp.arrays import compiled

_ONE = np.uint64(1)
_ZERO = np.uint64(0)
_HALF = np.uint64(32)
_MASK = np.uint64(0xFFFFFFFF)


@compiled
def sample_response(symbols: Any, words: Any, keep: Any, other: Any, codes: Any) -> None:
    for i in range(symbols.size):
        word = words[i]
        symbol = symbols[i]
        if word < keep:
            codes[i] = symbol
        else:
            rest = np.uint32((word - keep) // other)
            codes[i] = rest + np.uint32(rest >= symbol)


@compiled
def sample_window(symbols: Any, words: Any, window: Any, inside: Any, outside: Any, spare: Any, codes: Any) -> None:
    """Draw codes. The first `spare` codes of the window own `inside + 1` words, the others in it `inside`, all others `outside`."""
    larger = spare * (inside + _ONE)
    last = larger + (window - spare) * inside - _ONE  # last word of the window; the window may contain all words
    for i in range(symbols.size):
        word = words[i]
        symbol = np.uint64(symbols[i])
        if word > last:
            rest = (word - last - _ONE) // outside
            codes[i] = rest if rest < symbol else rest + window
        elif word < larger:
            codes[i] = symbol + word // (inside + _ONE)
        else:
            codes[i] = symbol + spare + (word - larger) // inside


@compiled
def sample_rows(symbols: Any, words: Any, starts: Any, codes: Any) -> None:
    """For each label, the last output whose range of words starts at or below the word."""
    for i in range(symbols.size):
        codes[i] = _last_at_or_below(starts[symbols[i]], words[i], 0, starts.shape[1])


@compiled
def sample_shift(
    symbols: Any, words: Any, starts: Any, guide: Any, guide_shift: Any, reach: int, last: int, codes: Any
) -> None:
    """For each label, the code clamp(symbol + noise), where noise is counted from `-reach`."""
    for i in range(symbols.size):
        word = words[i]
        slot = word >> guide_shift
        noise = _last_at_or_below(starts, word, guide[slot], guide[slot + _ONE] + 1) - reach
        codes[i] = min(max(np.int64(symbols[i]) + noise, 0), last)


@compiled
def _last_at_or_below(starts: Any, word: Any, low: Any, high: Any) -> Any:
    """Return the last index with `starts[index] <= word`. It must be at least `low` and below `high`."""
    while high - low > 1:
        middle = (low + high) >> 1
        if starts[middle] <= word:
            low = middle
        else:
            high = middle
    return low


@compiled
def round_to_anchors(symbols: Any, rounding_words: Any, lower_anchor: Any, upper_weight: Any, rows: Any) -> None:
    for i in range(symbols.size):
        cell = symbols[i]
        rows[i] = lower_anchor[cell] + np.uint32(rounding_words[i] < upper_weight[cell])


@compiled
def largest_ratio(high: Any, low: Any) -> int:
    """Return the index where high/low is largest. Fractions are compared exactly, by 128-bit cross products."""
    best = 0
    for i in range(1, high.size):
        if _product_exceeds(high[i], low[best], high[best], low[i]):
            best = i
    return best


@compiled
def _product_exceeds(a: Any, b: Any, c: Any, d: Any) -> Any:
    """Return whether a·b > c·d."""
    left, right = _high_word(a, b), _high_word(c, d)
    return left > right or (left == right and a * b > c * d)


@compiled
def _high_word(a: Any, b: Any) -> Any:
    """Return the upper 64 bits of a·b, by schoolbook multiplication of halves."""
    a_low, a_high = a & _MASK, a >> _HALF
    b_low, b_high = b & _MASK, b >> _HALF
    cross = a_high * b_low + ((a_low * b_low) >> _HALF)
    other = a_low * b_high + (cross & _MASK)
    return a_high * b_high + (cross >> _HALF) + (other >> _HALF)


@compiled
def spread_residual(weights: Any, lower: Any, upper: Any) -> None:
    """Make every row sum to 2^64 by moving entries within [lower, upper]. The caller guarantees that this is possible.

    A row's sum is tracked modulo 2^64, together with the number of times it wrapped around. At the end it must have
    wrapped once and be 0.
    """
    for i in range(weights.shape[0]):
        total, wraps = _ZERO, 0
        for j in range(weights.shape[1]):
            total += weights[i, j]
            if total < weights[i, j]:
                wraps += 1
        if wraps == 0:
            missing = _ZERO - total
            for j in range(weights.shape[1]):
                step = min(missing, upper[j] - weights[i, j])
                weights[i, j] += step
                missing -= step
        else:
            while wraps > 1 or total > _ZERO:
                for j in range(weights.shape[1]):
                    room = weights[i, j] - lower[j]
                    step = room if wraps > 1 else min(room, total)
                    weights[i, j] -= step
                    if step > total:
                        wraps -= 1
                    total -= step


@compiled
def count_below_few(labels: Any, thresholds: Any, symbols: Any) -> None:
    """Count thresholds without branches, so that the compiler can process many labels at once."""
    for i in range(labels.size):
        symbols[i] = 0
    for threshold in thresholds:
        for i in range(labels.size):
            symbols[i] += np.uint32(threshold < labels[i])


@compiled
def largest_window_ratio(values: Any, length: int) -> Any:
    """Return the window of `length` values with the largest ratio of maximum to minimum: its start, and the indices of both.

    As the window slides, two queues hold the indices that may become its maximum and its minimum. O(number of values).
    """
    falling = np.empty(values.size, dtype=np.int64)
    rising = np.empty(values.size, dtype=np.int64)
    falling_first, falling_end, rising_first, rising_end = 0, 0, 0, 0
    best_start, best_high, best_low = -1, 0, 0
    for i in range(values.size):
        while falling_end > falling_first and values[falling[falling_end - 1]] <= values[i]:
            falling_end -= 1
        falling[falling_end] = i
        falling_end += 1
        while rising_end > rising_first and values[rising[rising_end - 1]] >= values[i]:
            rising_end -= 1
        rising[rising_end] = i
        rising_end += 1
        start = i - length + 1
        if start < 0:
            continue
        if falling[falling_first] < start:
            falling_first += 1
        if rising[rising_first] < start:
            rising_first += 1
        high, low = falling[falling_first], rising[rising_first]
        if best_start < 0 or _product_exceeds(values[high], values[best_low], values[best_high], values[low]):
            best_start, best_high, best_low = start, high, low
    return best_start, best_high, best_low
