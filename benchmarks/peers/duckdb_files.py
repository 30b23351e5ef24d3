"""An insecure equivalent of `labeldp privatize` in DuckDB: python duckdb_files.py INPUT OUTPUT same|noise

Bins and randomized response with fixed thresholds. The random word of a record is DuckDB's hash of its id, which is fast, and no protection
against anyone who knows the hash. `same` also refuses repeated ids and writes rows in the order of another hash, as privatize does.
"""

import math
import sys

import duckdb

THRESHOLDS, OUTPUTS, EPSILON = [40.0, 90.0, 150.0, 210.0, 280.0], [20.0, 60.0, 120.0, 180.0, 240.0, 320.0], 1.0


def main(source, target, job):
    """One statement, and one more to find repeated ids: in the sorted file they are neighbours."""
    outputs = len(OUTPUTS)
    other = int(2**64 / (math.exp(EPSILON) + outputs - 1))
    keep = 2**64 - (outputs - 1) * other
    rows = f"'{source}'"
    code = " + ".join(f"(label > {threshold})::TINYINT" for threshold in THRESHOLDS)
    duckdb.execute(f"""
        COPY (
            SELECT id, code, ({OUTPUTS}::DOUBLE[])[code + 1] AS private_label
            FROM (
                SELECT id, CASE WHEN word < {keep}::UBIGINT THEN bin
                    ELSE (word - {keep}::UBIGINT) // {other}::UBIGINT
                        + ((word - {keep}::UBIGINT) // {other}::UBIGINT >= bin)::TINYINT END::TINYINT AS code
                FROM (SELECT id, hash(id, 1) AS word, ({code})::TINYINT AS bin FROM {rows})
            )
            {"ORDER BY hash(id, 2), id" if job == "same" else ""}
        ) TO '{target}' (FORMAT parquet)
    """)
    if job == "same":
        equal = f"SELECT id = lag(id) OVER () AS equal FROM read_parquet('{target}')"
        if duckdb.execute(f"SELECT count(*) FROM ({equal}) WHERE equal").fetchone()[0]:
            raise SystemExit("ids repeat")


main(*sys.argv[1:])
