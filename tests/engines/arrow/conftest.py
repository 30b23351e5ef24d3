"""One small mechanism, and a run of the engine's second pass into a file."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from labeldp.domain import Domain
from labeldp.engines.arrow.arrow_input import ArrowInput
from labeldp.engines.arrow.source import LabelSource
from labeldp.engines.passes import DrawJob
from labeldp.mechanisms import RROnBins
from labeldp.priors import Prior
from labeldp.sampling import KeyedRandomness

DOMAIN = Domain.integers(0, 52)


@pytest.fixture(scope="session")
def mechanism():
    return RROnBins.optimal(Prior.uniform(DOMAIN), 1.0)


@pytest.fixture
def randomness():
    return KeyedRandomness(b"k" * 32, b"r" * 16)


@pytest.fixture
def release(tmp_path, mechanism):
    """Reads a file twice, as a release does, and returns the path of the labels file."""
    made = 0

    def run(path: Path, **options) -> Path:
        nonlocal made
        made += 1
        names = {name: options.pop(name) for name in ("id_column", "id_type") if name in options}
        labels = ArrowInput(LabelSource(path, "y", **({"id_column": "id"} | names)))
        work = tmp_path / f"work-{made}"
        work.mkdir()
        target = tmp_path / f"labels-{made}.parquet"
        keys = {"key": b"k" * 32, "release": b"r" * 16}
        scanned = labels.scan(DOMAIN, key=keys["key"], out_of_range="clip")
        progress = options.pop("progress", None)
        job = DrawJob(mechanism=mechanism, domain=DOMAIN, **keys, labels=target, work=work, **options)
        labels.randomize(job, scanned, progress)
        return target

    return run


@pytest.fixture
def written(release):
    return lambda path, **options: pq.read_table(release(path, **options))


@pytest.fixture
def open_files(tmp_path):
    """How many files below the test's folder this process has open, nameless ones included."""
    place = Path("/proc/self/fd")
    if not place.is_dir():
        pytest.skip("open files cannot be listed here")

    def count() -> int:
        names = []
        for handle in place.iterdir():
            with suppress(OSError):  # the listing itself is gone by now
                names.append(str(handle.readlink()))
        return sum(name.startswith(str(tmp_path)) for name in names)

    return count
