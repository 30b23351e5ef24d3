"""Nothing in an answer with sums depends on a label, but for the noisy sums.

`labeldp sums` runs on labels that differ for the same ids. The noisy numbers are pinned where answers are made, after the exact sums
were computed for real. So every byte that leaves must be the same.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp.release import grid_labels
from labeldp.release import sum_queries as queries
from pinned_release import World, arrow_file, csv_file, leaks

RECORDS = 230
IDS = [(7919 * place) % 100_003 for place in range(RECORDS)]
BASE = [round(100 * ((place * 0.618) % 1), 1) for place in range(RECORDS)]
TWINS = {
    "permuted": BASE[::-1],
    "sorted": sorted(BASE),
    "all the same": [50] * RECORDS,
    "at both bounds": [0, 100] * (RECORDS // 2),
    "many digits": [repr(label / 7) for label in BASE],
    "some outside the bounds": [*BASE[:5], 1e9, -1e9, *BASE[7:]],
    "many outside the bounds": [1e6 if place % 6 == 0 else label for place, label in enumerate(BASE)],
}
CREATE = ["ledger", "create", "ledger.db", "--dataset", "d", "--budget", "5"]
SUMS = ["sums", "labels.csv", "--label", "y", "--id", "id", "--cells", "cells.parquet", "--epsilon", "2"]
SUMS += ["--lower", "0", "--upper", "100", "--out", "answer"]
CHARGE = ["--ledger", "ledger.db", "--dataset", "d"]
COMMANDS = {
    "plain": [SUMS, ["audit", "answer"]],
    "json": [[*SUMS, "--json"]],
    "quiet": [[*SUMS, "--quiet"]],
    "dry run": [[*SUMS, "--dry-run"]],
    "ledger": [CREATE, [*SUMS, *CHARGE], ["ledger", "history", "ledger.db"]],
    "matching": [[*SUMS, "--matching"]],
    "in the way": [SUMS, SUMS],
}


def cells_file(path):
    """Signs and cells for all ids but two that have no cells."""
    numbers = np.arange(RECORDS - 2)
    signs = np.where(numbers % 3 == 0, 1, -1).astype(np.int8)
    pq.write_table(pa.table({"id": IDS[2:], "c0": np.ones_like(signs), "c1": signs, "c2": numbers % 7}), path)


@contextmanager
def pinned_answers():
    """Answers with numbers that no label decides."""
    real = grid_labels.Answer

    def answer(kind, values, *more):
        return real(kind, 1000 * (37 * np.arange(values.size, dtype=np.int64) % 23), *more)

    with mock.patch.object(grid_labels, "Answer", answer):
        yield


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return World(tmp_path_factory.mktemp("sums"))


def seen(world, case, labels, name="labels.csv", write=csv_file):
    commands = [[name if word == "labels.csv" else word for word in one] for one in COMMANDS[case]]
    with pinned_answers():
        return world.run({name: write(IDS, labels), "cells.parquet": cells_file}, commands)


@pytest.fixture(scope="module", params=COMMANDS)
def first(world, request):
    """One of the cases, and what is seen of it with the first labels."""
    return request.param, seen(world, request.param, BASE)


@pytest.mark.parametrize("twin", TWINS)
def test_nothing_else_depends_on_labels(world, first, twin):
    case, first = first
    assert first["exit code 1"] == 0
    assert any(name.startswith("answer/sums.json") for name in first) == (case != "dry run")
    assert leaks(first, seen(world, case, TWINS[twin])) == {}


def test_the_order_of_the_labels_is_not_seen(world):
    first = seen(world, "plain", BASE, "labels.parquet", arrow_file)
    turned = dict(sorted(zip(IDS, BASE, strict=True), key=lambda record: record[1]))
    with pinned_answers():
        second = world.run(
            {"labels.parquet": arrow_file(list(turned), list(turned.values())), "cells.parquet": cells_file},
            [[word.replace(".csv", ".parquet") for word in one] for one in COMMANDS["plain"]],
        )
    assert leaks(first, second) == {}


def test_a_planted_leak_is_found(world):
    real = queries.draw_answer

    def leaking(budget, held, *more):
        answer = real(budget, held, *more)
        return replace(answer, values=answer.values + held.units[3] % 1000)

    with mock.patch.object(queries, "draw_answer", leaking):
        found = leaks(seen(world, "plain", BASE), seen(world, "plain", TWINS["sorted"]))
    assert any(name.startswith("answer/sums.json") for name in found)
