"""What the tests of the Spark engine share, besides the session of all tests."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="Spark's tests need the extra spark: pip install 'labeldp[spark]'")


@pytest.fixture
def place(tmp_path):
    """A folder with a ledger, to see what a refusal leaves."""
    from spark_scenes import Place

    from labeldp import Ledger

    (tmp_path / "party").mkdir()
    Ledger.create(tmp_path / "party" / "ledger.db").add_dataset("sales", 3)
    return Place(tmp_path / "party")
