"""The figures of `startup.py`, which has a file format of its own, as a result like those of the other parts."""

from __future__ import annotations

import json
from pathlib import Path

from bench.results import Column, Result, Table, Target

COMPARE_WHY = (
    "Half of the time goes into imports of NumPy, SciPy, Arrow and numba and into loading compiled loops, the other half into 65 designs, two at a time "
    "(`python -X importtime -m labeldp compare --dataset criteo`)."
)


def as_result(path: Path, *, quick: bool) -> Result:
    """Read what `startup.py --json` wrote."""
    data = json.loads(path.read_text(encoding="utf-8"))
    result = Result("startup", "Start-up", "python benchmarks/startup.py", quick=quick)
    table = Table(
        "startup",
        f"New processes, turn by turn, medians of {data['rounds']} rounds, and ratios to an import of NumPy and pyarrow in the same run.",
        [
            Column("name", "what"),
            Column("seconds", "seconds", ".2f"),
            Column("ratio", "× reference", ".1f"),
            Column("processor_seconds", "processor seconds", ".2f"),
            Column("processor_ratio", "× reference", ".1f"),
        ],
    )
    for name, figures in data["startup"].items():
        table.add(name=name, **figures)
    result.tables.append(table)
    seconds = {name: figures["seconds"] for name, figures in data["startup"].items()}
    result.targets = [
        Target("`labeldp compare` on 401 labels, warm", 2.0, seconds["compare"], " s", why=COMPARE_WHY),
        Target("`import labeldp`", 0.5, seconds["import"], " s"),
    ]
    return result
