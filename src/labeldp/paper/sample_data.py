"""Two small files to try the commands on: the labels party's sales and the features party's clicks. Generated, not genuine."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from labeldp.errors import InvalidInput
from labeldp.paper.data import criteo_like

SALES, CLICKS = "sales.parquet", "clicks.parquet"
SEED = 12


def write_sample_data(folder: Path, rows: int) -> tuple[Path, Path]:
    """Write `sales.parquet` (order, amount) and `clicks.parquet` (order and features) into `folder`. Nothing is replaced."""
    sales, clicks = folder / SALES, folder / CLICKS
    for path in (sales, clicks):
        if path.exists():
            raise InvalidInput(f"{path} exists: remove it, or name another folder")
    data = criteo_like(rows, seed=SEED)
    generator = np.random.default_rng(SEED)
    orders = np.arange(1, rows + 1)
    shuffled = generator.permutation(rows)  # the two parties have nothing in common but the ids
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"order": orders[shuffled], "amount": data.labels[shuffled]}), sales)
    pq.write_table(data.features.add_column(0, "order", pa.array(orders)), clicks)
    return sales, clicks
