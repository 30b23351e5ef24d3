"""Exact sampling: integer tables that choose an output, and the random words that they read.

A table maps a *symbol* (the mechanism's input as a small integer) and a uniform 64-bit word to an output code. Its
probabilities are integers over 2^64, so the sampled distribution can be enumerated and its ε proven
(`labeldp.mechanisms.verify`). The words come from the operating system (`OsEntropy`) or from a keyed function of the
record (`KeyedRandomness`, or `BoundRandomness` in processes that must not have the key). `MultisetHash` recognises
records that were read before, and `EntryChoice` chooses which entries of a person are randomized. `integer_noise` draws
unbounded integer noise for counts and sums. `docs/concepts/exact-sampling.md` contains the constructions and their
proofs.
"""

from labeldp.sampling.ids import IdDigests
from labeldp.sampling.multiset import MultisetHash
from labeldp.sampling.noise_tables import ShiftTable
from labeldp.sampling.randomness import (
    BoundRandomness,
    EntryChoice,
    KeyedRandomness,
    OsEntropy,
    Randomness,
    choose_entries,
    person_sizes,
)
from labeldp.sampling.table import (
    MAX_ENTRIES,
    ResponseTable,
    Table,
    WindowTable,
    WorstRatio,
    count_below,
    table_from_json,
)
from labeldp.sampling.weight_tables import AnchoredTable, WeightTable

__all__ = [
    "MAX_ENTRIES",
    "AnchoredTable",
    "BoundRandomness",
    "EntryChoice",
    "IdDigests",
    "KeyedRandomness",
    "MultisetHash",
    "OsEntropy",
    "Randomness",
    "ResponseTable",
    "ShiftTable",
    "Table",
    "WeightTable",
    "WindowTable",
    "WorstRatio",
    "choose_entries",
    "count_below",
    "person_sizes",
    "table_from_json",
]
