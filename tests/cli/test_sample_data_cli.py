"""`labeldp sample-data`: two files that fit together, and never over files that exist."""

from __future__ import annotations

import pyarrow.compute as pc
import pyarrow.parquet as pq

from labeldp.paper.data import criteo_like
from labeldp.paper.data.criteo import SAMPLE_SEED


def test_the_two_files_have_the_same_orders_and_belong_together(run, tmp_path):
    code, out, _ = run("sample-data", tmp_path / "new", "--rows", "500")
    assert code == 0
    sales, clicks = (pq.read_table(tmp_path / "new" / f"{name}.parquet") for name in ("sales", "clicks"))
    for name in ("sales.parquet", "clicks.parquet"):
        assert str(tmp_path / "new" / name) in out.replace("\n", "")
    assert sales.column_names == ["order", "amount"]
    assert "amount" not in clicks.column_names
    assert sales["order"].to_pylist() != clicks["order"].to_pylist()
    data = criteo_like(500, seed=SAMPLE_SEED)
    joined = sales.take(pc.sort_indices(sales["order"]))
    assert joined["order"].to_pylist() == clicks["order"].to_pylist() == list(range(1, 501))
    assert joined["amount"].to_pylist() == data.labels.tolist()
    assert clicks.drop_columns("order").equals(data.features)


def test_it_is_the_same_every_time_and_replaces_nothing(run, tmp_path):
    for name in ("a", "b"):
        assert run("sample-data", tmp_path / name, "--rows", "200")[0] == 0
    for file in ("sales.parquet", "clicks.parquet"):
        assert pq.read_table(tmp_path / "a" / file).equals(pq.read_table(tmp_path / "b" / file))
    (tmp_path / "a" / "sales.parquet").unlink()
    code, _, err = run("sample-data", tmp_path / "a", "--rows", "200")
    assert code == 2
    assert "clicks.parquet exists" in err.replace("\n", "")
    assert not (tmp_path / "a" / "sales.parquet").exists()
