"""Integer ids in the type that they have in a message."""

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from labeldp.engines.arrow.source import LabelSource
from labeldp.engines.arrow.steps import with_step
from labeldp.engines.batches import LabelBatch
from labeldp.errors import InvalidInput


def with_integer_type(source: LabelSource, kind: pa.DataType) -> LabelSource:
    """The source with integer ids cast to `kind`, the type that they have in the message."""

    def cast(batches: Iterator[LabelBatch]) -> Iterator[LabelBatch]:
        for batch in batches:
            try:
                ids = batch.ids.cast(kind) if pa.types.is_integer(batch.ids.type) else batch.ids
            except pa.ArrowInvalid:
                raise InvalidInput(
                    f"{source.path}: some ids from row {batch.first_row + 1} on (rows count from 1) do not fit into {kind}, the type of the "
                    "message's ids. Only a new release can hold them"
                ) from None  # it shows an id
            yield replace(batch, ids=ids)

    return with_step(source, cast)
