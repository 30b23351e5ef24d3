"""A column on disk that is written in batches and read back by partition."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


class PartitionedColumn:
    """A column in one nameless file. Batches are written in the order of their partitions.

    A partition is read back from its slice of every batch. So a column needs one open file, however many partitions it
    has, and is written sequentially. The operating system removes the file with the process, however that ends. In memory
    it keeps 8 bytes per batch and partition.
    """

    def __init__(self, folder: Path, kind: Any) -> None:
        self.kind: np.dtype[Any] = np.dtype(kind)
        self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115 - closed by close
        self._size = 0
        self._batches: list[tuple[int, NDArray[np.int64]]] = []

    def append(self, values: NDArray[Any], starts: NDArray[np.int64]) -> None:
        """Writes a batch whose partition p is `values[starts[p]:starts[p + 1]]`. Keeps `starts` itself, not a copy."""
        self._batches.append((self._size, starts))
        self._file.seek(self._size * self.kind.itemsize)
        self._size += values.size
        data = np.ascontiguousarray(values, self.kind).view(np.uint8).data
        while data:  # a raw write may stop early, for example on a full disk; the next write then raises
            data = data[self._file.write(data) :]

    def read(self, partition: int) -> NDArray[Any]:
        """All values of a partition, in the order in which they were written."""
        pieces = [
            (first + starts[partition], starts[partition + 1] - starts[partition]) for first, starts in self._batches
        ]
        values = np.empty(sum(int(count) for _, count in pieces), self.kind)
        data = values.view(np.uint8).data
        for first, count in pieces:
            piece = data[: int(count) * self.kind.itemsize]
            data = data[len(piece) :]
            self._file.seek(int(first) * self.kind.itemsize)
            while piece:
                done = self._file.readinto(piece)
                if not done:
                    raise OSError(f"a working file is {len(piece)} bytes too short")
                piece = piece[done:]
        return values

    def close(self) -> None:
        self._file.close()
