"""An insecure equivalent of `labeldp privatize` in polars: python polars_files.py INPUT OUTPUT same|noise

Bins and randomized response with fixed thresholds. The random word of a record is polars' hash of its id, which is fast, and no protection
against anyone who knows the hash. `same` also refuses repeated ids and writes rows in the order of another hash, as privatize does.
"""

import math
import sys

import polars as pl

THRESHOLDS, OUTPUTS, EPSILON = [40.0, 90.0, 150.0, 210.0, 280.0], [20.0, 60.0, 120.0, 180.0, 240.0, 320.0], 1.0


def main(source, target, job):
    """Stream the file through."""
    rows = pl.scan_csv(source) if source.endswith(".csv") else pl.scan_parquet(source)
    outputs = len(OUTPUTS)
    other = int(2**64 / (math.exp(EPSILON) + outputs - 1))
    keep = 2**64 - (outputs - 1) * other
    code = pl.sum_horizontal([(pl.col("label") > threshold).cast(pl.UInt8) for threshold in THRESHOLDS])
    rows = rows.select("id", word=pl.col("id").hash(1), code=code)
    another = ((pl.col("word") - keep) // other).cast(pl.UInt8)
    another = another + (another >= pl.col("code")).cast(pl.UInt8)
    rows = rows.select("id", code=pl.when(pl.col("word") < keep).then(pl.col("code")).otherwise(another))
    rows = rows.with_columns(private_label=pl.col("code").replace_strict(range(outputs), OUTPUTS))
    if job == "same":
        rows = rows.sort(pl.col("id").hash(2), "id")
    rows.sink_parquet(target)
    if job == "same":  # in the sorted file, repeated ids are neighbours
        equal = pl.scan_parquet(target).select((pl.col("id") == pl.col("id").shift(1)).any())
        if equal.collect(engine="streaming").item():
            raise SystemExit("ids repeat")


main(*sys.argv[1:])
