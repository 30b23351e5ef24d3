"""Two steps of a pass at the same time: while one batch is used, the next one is made."""

from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

Item = TypeVar("Item")
_END = object()


@contextmanager
def ahead(make: Callable[[], Iterator[Item]]) -> Iterator[Iterator[Item]]:
    """The items of the iterator that `make` gives, each made by another thread while the one before it is in use.

    What comes out, its order, and which error comes after which item do not depend on the threads: an error is raised when the
    item that it stands for is asked for. At most one item waits. When the block ends, the iterator is closed, in its own thread,
    before anything that the block was given is.
    """
    with ThreadPoolExecutor(1, "labeldp-ahead") as thread:
        items = make()
        try:
            yield _in_order(thread, items)
        finally:
            thread.submit(_close, items).result()


def _in_order(thread: ThreadPoolExecutor, items: Iterator[Item]) -> Iterator[Item]:
    waiting: Future[object] = thread.submit(next, items, _END)
    while (item := waiting.result()) is not _END:
        waiting = thread.submit(next, items, _END)
        yield item  # type: ignore[misc]


def _close(items: Iterator[object]) -> None:
    if isinstance(items, Generator):
        items.close()
