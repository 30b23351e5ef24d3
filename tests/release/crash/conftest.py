from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from crash_scene import Victim


def memory_folder():
    """A folder in memory where there is one: thousands of flushes to a busy disk would take minutes."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    return tempfile.TemporaryDirectory(prefix="labeldp-crash-", dir=memory, ignore_cleanup_errors=True)


@pytest.fixture
def folder():
    with memory_folder() as name:
        yield Path(name)


@pytest.fixture(scope="module")
def victim():
    """A process whose runs can be killed."""
    with memory_folder() as name:
        victim = Victim(Path(name))
        yield victim
        victim.close()
