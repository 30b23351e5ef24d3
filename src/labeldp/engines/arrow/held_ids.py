"""The ids that a message holds, as a spill that new rows are compared with."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

from labeldp.engines.arrow.spill import Spill, open_spill
from labeldp.message.reader import Message
from labeldp.sampling import KeyedRandomness


def spill_of_held(message: Message, id_type: pa.DataType, randomness: KeyedRandomness) -> Callable[[Path, int], Spill]:
    """A function that spills all ids of the message, in partitions like those of new rows with ids of this type."""

    def released(folder: Path, size: int) -> Spill:
        spill = open_spill(folder, id_type, size, np.uint8)
        for ids, _ in (batch for file in message.files for batch in file.batches()):  # their digests are known
            same = ids.cast(id_type)
            digests = randomness.id_digests(same, digest=message.mechanism.digest_bytes)
            spill.add(same, digests, np.zeros(len(same), np.uint8))
        return spill

    return released
