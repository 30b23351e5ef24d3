"""What comes out of sampler and source together agrees with the integers of the table."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from labeldp.sampling import (
    AnchoredTable,
    KeyedRandomness,
    OsEntropy,
    ResponseTable,
    ShiftTable,
    WeightTable,
    WindowTable,
)
from labeldp.sampling.noise import laplace_profile, staircase_profile

CHUNK = 1 << 20
SMALLEST_EXPECTATION = 20
CHANCE = 1e-11  # how often fresh draws are refused by mistake

MATRIX = np.array([[0.5, 0.3, 0.15, 0.05], [0.25, 0.45, 0.2, 0.1], [0.3, 0.2, 0.4, 0.1]])
INNER = WeightTable.from_probabilities(MATRIX, 2)
TABLES = {
    "response": ResponseTable(5, 1),
    "large epsilon": ResponseTable(3, 6),
    "weights": INNER,
    "laplace": ShiftTable.from_profile(laplace_profile(53, 1.0), 1, cells=53),
    "laplace on a window": ShiftTable.from_profile(laplace_profile(9, 2.0, window=30), 2, cells=9, window=30),
    "staircase": ShiftTable.from_profile(staircase_profile(53, 3.0, 17), 3, cells=53),
    "window": WindowTable(9, 5, 1),
    "anchored": AnchoredTable([0, 0, 1, 1, 2], [0, 2**62, 1, 2**63 + 7, 0], INNER),
}
SOURCES = {"os": OsEntropy(), "keyed": KeyedRandomness(b"a fixed key for this test only!!", bytes(16))}


def p_value(table, source, draws: int) -> float:
    """Pearson's test on all cells of symbol × output together, small expectations pooled within their symbol."""
    counts = np.zeros((table.inputs, table.outputs))
    for start in range(0, draws, CHUNK):
        ids = np.arange(start, min(start + CHUNK, draws))
        symbols = (ids % table.inputs).astype(np.uint32)
        words, rounding = source.draw(symbols, ids=ids, digest=b"frequencies", rounding=table.needs_rounding)
        codes = table.sample(symbols, words, rounding)
        cells = symbols.astype(np.int64) * table.outputs + codes
        counts += np.bincount(cells, minlength=counts.size).reshape(counts.shape)
    rows = counts.sum(axis=1)
    statistic, freedom = 0.0, 0
    for observed, expected in zip(counts, table.probabilities() * rows[:, np.newaxis], strict=True):
        small = expected < SMALLEST_EXPECTATION
        pooled_observed = np.append(observed[~small], observed[small].sum())
        pooled_expected = np.append(expected[~small], expected[small].sum())
        if pooled_expected[-1] < SMALLEST_EXPECTATION:
            largest = pooled_expected[:-1].argmax()
            pooled_observed[largest] += pooled_observed[-1]
            pooled_expected[largest] += pooled_expected[-1]
            pooled_observed, pooled_expected = pooled_observed[:-1], pooled_expected[:-1]
        statistic += float(((pooled_observed - pooled_expected) ** 2 / pooled_expected).sum())
        freedom += pooled_expected.size - 1
    return float(stats.chi2.sf(statistic, freedom))


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_a_million_draws_agree_with_the_integers(table, source):
    assert p_value(table, source, 1_000_000) > CHANCE


@pytest.mark.slow
@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_a_hundred_million_draws_agree_with_the_integers(table, source):
    assert p_value(table, source, 100_000_000) > CHANCE


def test_the_test_itself_sees_an_epsilon_one_percent_too_large():
    class Planted(ResponseTable):
        def probabilities(self, symbols=None):
            return ResponseTable(5, 1).probabilities(symbols)

    assert p_value(Planted(5, "1.01"), SOURCES["keyed"], 5_000_000) < CHANCE


def test_the_test_itself_sees_two_bins_that_share_their_draws():
    class Shared:
        """A keyed source that leaves the symbol and the record's last bit out, so that neighbours share a word."""

        def draw(self, symbols, *, ids, digest, rounding):
            return SOURCES["keyed"].draw(symbols * 0, ids=ids, digest=digest)[0].repeat(2)[: symbols.size], None

    # frequencies alone look right for shared draws; their spread does not
    table = ResponseTable(2, 1)
    symbols = (np.arange(100_000) % 2).astype(np.uint32)
    words, _ = Shared().draw(symbols, ids=np.arange(100_000), digest=b"d", rounding=False)
    kept = table.sample(symbols, words) == symbols
    assert np.corrcoef(kept[::2], kept[1::2])[0, 1] > 0.9
    words, _ = SOURCES["keyed"].draw(symbols, ids=np.arange(100_000), digest=b"d")
    kept = table.sample(symbols, words) == symbols
    assert abs(np.corrcoef(kept[::2], kept[1::2])[0, 1]) < 0.03
