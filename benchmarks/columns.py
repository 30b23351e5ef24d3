"""How fast text categories become codes: Arrow dictionaries (`labeldp.learn.feature_columns`) against scikit-learn.

Run: python benchmarks/columns.py [--rows 1000000 5000000] [--categories 100 10000 200000]

Each table has one text column for each number of categories. Both sides keep categories with 5 rows or more. scikit-learn
gets the columns as objects; making them is timed apart, for tables from pandas may hold objects already.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import pyarrow as pa
from sklearn.preprocessing import OrdinalEncoder

from labeldp.learn.feature_columns import Vocabulary


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 5_000_000])
    parser.add_argument("--categories", type=int, nargs="+", default=[100, 10_000, 200_000])
    arguments = parser.parse_args()
    print("CPU seconds to fit and encode, and how many times as long OrdinalEncoder takes (with making its objects)")
    print(f"{'rows':>12} {'Arrow':>8} {'OrdinalEncoder':>16} {'objects':>9} {'ratio':>7} {'(with)':>8}")
    for rows in arguments.rows:
        generator = np.random.default_rng(0)
        columns = [text(generator, rows, categories) for categories in arguments.categories]
        started = time.process_time()
        codes = np.column_stack([Vocabulary.fit("text", column).encode(column) for column in columns])
        fitted = time.process_time()
        objects = np.column_stack([column.to_numpy(zero_copy_only=False) for column in columns])
        made = time.process_time()
        encoder = OrdinalEncoder(min_frequency=5, handle_unknown="use_encoded_value", unknown_value=-1)
        theirs = encoder.fit(objects).transform(objects)
        ended = time.process_time()
        assert [len(np.unique(column)) for column in codes.T] == [len(np.unique(column)) for column in theirs.T]
        arrow, conversion, ordinal = fitted - started, made - fitted, ended - made
        print(
            f"{rows:>12,} {arrow:>8.2f} {ordinal:>16.2f} {conversion:>9.2f} {ordinal / arrow:>7.1f} "
            f"{(ordinal + conversion) / arrow:>8.1f}",
            flush=True,
        )


def text(generator: np.random.Generator, rows: int, categories: int) -> pa.Array:
    """A column of texts of eight letters, some much more frequent than others."""
    names = pa.array([f"{i * 2654435761 % 2**32:08x}" for i in range(categories)])
    drawn = (categories * generator.random(rows) ** 3).astype(np.int32)
    return pa.DictionaryArray.from_arrays(drawn, names).cast(pa.large_string())


if __name__ == "__main__":
    main()
