from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture
def genuine():
    """Find a genuine file by name in the folder that LABELDP_DATA names; without it, such tests are skipped."""

    def find(name: str) -> Path:
        folder = os.environ.get("LABELDP_DATA")
        path = Path(folder or "", name)
        if folder is None or not path.is_file():
            pytest.skip(f"an extra on genuine data: set LABELDP_DATA to a folder that holds {name}")
        return path

    return find
