"""What a run of `privatize` or `apply` returns."""

from dataclasses import dataclass, field
from pathlib import Path

from labeldp.mechanisms import FiniteMechanism


@dataclass(frozen=True)
class ReleaseOutcome:
    """What a run of `privatize` or `apply` did. It is for the labels party, which must not pass `clipped` on.

    Attributes
    ----------
    message : Path
        The message's folder.
    mechanism : FiniteMechanism
        What randomized the labels.
    records : int
        How many records this run added to the message.
    clipped : int
        How many labels lay outside the bounds and were moved to them. This count is private: ε does not cover it.
    resumed : bool
        Whether the run continued, or found finished, a release that an earlier run had begun.
    already_held : int
        How many records of a later batch the message held already; they keep their private labels.
    message_records : int
        The number of records in the message after the run, in all its batches.

    Examples
    --------
    >>> import tempfile
    >>> import pyarrow as pa, pyarrow.parquet as pq
    >>> from labeldp import LabelRandomizer, LabelSource, privatize
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pq.write_table(pa.table({"amount": [20.0, 80.0, 50.0, 30.0] * 99 + [500.0] * 4}), f"{folder}/sales.parquet")
    ...     source = LabelSource(f"{folder}/sales.parquet", "amount")
    ...     outcome = privatize(source, LabelRandomizer(epsilon=1, domain=(0, 100)), f"{folder}/message")
    >>> outcome.records, outcome.clipped, outcome.resumed
    (400, 4, False)
    """

    message: Path
    mechanism: FiniteMechanism = field(repr=False)
    records: int
    clipped: int = field(repr=False)
    resumed: bool
    already_held: int = 0
    message_records: int = field(kw_only=True, repr=False)
