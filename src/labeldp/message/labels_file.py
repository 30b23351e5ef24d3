"""`labels.parquet`: id, code and private label of each record."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.errors import InvalidInput
from labeldp.mechanisms import FiniteMechanism


class LabelsWriter:
    """The Parquet file of a message: id, code, private label. Its schema carries nothing of the input's but the id's name and type."""

    def __init__(self, path: Path, id_name: str, id_type: pa.DataType, mechanism: FiniteMechanism) -> None:
        import pyarrow.parquet as pq

        if id_name in ("code", "private_label"):
            raise InvalidInput(f"the id column cannot be called {id_name!r}, the message uses that name; rename it")
        self._outputs = mechanism.outputs
        code_type = pa.from_numpy_dtype(code_dtype(mechanism.outputs.size))
        self.schema = pa.schema([(id_name, id_type), ("code", code_type), ("private_label", pa.float64())])
        self._writer = pq.ParquetWriter(
            path, self.schema, use_dictionary=["code", "private_label"], compression="snappy", store_schema=False
        )

    def write(self, ids: pa.Array, codes: NDArray[Any]) -> None:
        columns = [ids, pa.array(codes), pa.array(self._outputs[codes])]
        self._writer.write_batch(pa.record_batch(columns, schema=self.schema), row_group_size=1 << 20)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()


def code_dtype(outputs: int) -> Any:
    """The smallest unsigned type that holds every code: it depends on the mechanism only."""
    return np.uint8 if outputs <= 1 << 8 else np.uint16 if outputs <= 1 << 16 else np.uint32


def stamp(file: Path) -> str:
    """SHA-256 of a whole batch: a copy in which any byte differs is another file, and nothing may be added to it."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
