"""Machine code on disk follows the sources of its whole room, not only of its own file."""

from __future__ import annotations

import os

from labeldp.design._search import forget_stale_code


def test_machine_code_older_than_any_source_is_dropped_and_newer_code_kept(tmp_path):
    (tmp_path / "__pycache__").mkdir()
    times = {
        "_cost.py": 200,
        "_search.py": 100,
        "__pycache__/_search.least.nbi": 150,
        "__pycache__/_cost.table.nbi": 250,
    }
    for name, moment in times.items():
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (moment, moment))
    forget_stale_code(tmp_path)
    assert [file.name for file in (tmp_path / "__pycache__").iterdir()] == ["_cost.table.nbi"]
