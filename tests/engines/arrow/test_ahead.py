"""Items come out as they were made, in their order, whatever the threads do."""

from __future__ import annotations

import threading

import pytest

from labeldp.engines.arrow.arrow_input import prefetched


def test_the_next_item_is_made_while_one_is_in_use():
    """If it were not, this would wait for good, so the wait has a limit."""
    second_is_made = threading.Event()

    def make():
        yield 1
        second_is_made.set()
        yield 2

    with prefetched(make) as items:
        assert next(items) == 1
        assert second_is_made.wait(60)
        assert list(items) == [2]


def test_at_most_one_item_waits():
    made = []

    def make():
        for number in range(100):
            made.append(number)
            yield number

    with prefetched(make) as items:
        for number in items:
            assert len(made) <= number + 2


def test_an_error_comes_after_the_items_before_it():
    def make():
        yield "good"
        raise ValueError("the second item cannot be made")

    with prefetched(make) as items:
        assert next(items) == "good"
        with pytest.raises(ValueError, match="second item"):
            next(items)


@pytest.mark.parametrize("way", ["finished", "left", "failed"])
def test_the_iterator_is_closed_by_the_thread_that_ran_it(way):
    threads = []

    def make():
        try:
            threads.append(threading.current_thread())
            yield from range(3)
        finally:
            threads.append(threading.current_thread())

    def use():
        with prefetched(make) as items:
            for _ in items:
                if way == "left":
                    break
                if way == "failed":
                    raise KeyError

    if way == "failed":
        with pytest.raises(KeyError):
            use()
    else:
        use()
    assert len(threads) == 2
    assert threads[0] is threads[1] is not threading.current_thread()
    assert not threads[0].is_alive()
