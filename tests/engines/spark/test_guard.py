"""What a failing worker lets out: the name of its error and nothing else."""

from __future__ import annotations

import pytest
from spark_scenes import shown

from labeldp.engines.spark.worker import REPEATED, WorkerError, without_error_texts


def test_the_text_of_an_error_stays_on_the_worker():
    def task(batches):
        yield from batches
        raise ValueError("the label 77123 is odd") from KeyError("77123")

    run = without_error_texts(task)(iter([1, 2]))
    assert [next(run), next(run)] == [1, 2]
    with pytest.raises(WorkerError, match=r"failed with ValueError$") as failure:
        next(run)
    assert failure.value.__cause__ is None
    assert failure.value.__context__ is None
    assert "is odd" not in str(failure.value)


def test_an_error_of_the_input_is_hidden_too():
    def broken():
        yield 1
        raise ArithmeticError("77123")

    with pytest.raises(WorkerError) as failure:
        list(without_error_texts(iter)(broken()))
    assert "77123" not in shown(failure.value)


def test_our_own_errors_get_out():
    def task(batches):
        yield from batches
        raise WorkerError(REPEATED)

    with pytest.raises(WorkerError, match=REPEATED):
        list(without_error_texts(task)(iter([])))
