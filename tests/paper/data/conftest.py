from __future__ import annotations

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / ".." / "shared" / "data"


@pytest.fixture
def genuine():
    """Path of a genuine sample by name; skips where the samples are not at hand."""

    def find(name: str) -> Path:
        path = SHARED / name
        if not path.is_file():
            pytest.skip(f"no genuine sample {name}")
        return path

    return find
