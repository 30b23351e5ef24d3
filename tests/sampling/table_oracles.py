"""Oracles for tables, in plain Python integers."""

from __future__ import annotations

from fractions import Fraction

from labeldp.sampling import Table


def brute_force_ratio(table: Table) -> Fraction:
    """The worst ratio by looking at every pair of symbols."""
    columns = zip(*table.weights(), strict=True)
    return max(Fraction(max(column), min(column)) for column in columns)


def first_and_last_words(table: Table, symbol: int) -> tuple[list[int], list[int]]:
    """For each output, the first and the last word that lead to it when ranges follow the order of the codes."""
    firsts, lasts, start = [], [], 0
    for weight in table.weights()[symbol]:
        firsts.append(start)
        start += weight
        lasts.append(start - 1)
    return firsts, lasts
