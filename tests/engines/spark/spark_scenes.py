"""What the tests of the Spark engine share: small tables, releases of them, and the same on one machine to compare with."""

from __future__ import annotations

import traceback
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

import labeldp.spark
from labeldp import Domain, LabelDPError, LabelSource, Ledger, Message
from labeldp.engines.arrow.arrow_input import ArrowInput
from labeldp.engines.passes import DrawJob
from labeldp.engines.spark.shuffle import DrawTask, OrderTask, code_type, row_schema
from labeldp.engines.spark.worker import RecordReader
from labeldp.mechanisms import FiniteMechanism
from labeldp.release.key_file import KeyFile
from labeldp.sampling import KeyedRandomness
from labeldp.sampling.multiset import MultisetHash

KEY, RELEASE = bytes(range(32)), bytes(range(16))
DOMAIN = Domain(0, 10, cells=11)


def records(rows=60, first=0, seed=0, ids="int"):
    """A table with the columns id and y."""
    random = np.random.default_rng(seed)
    numbers = random.permutation(np.arange(first, first + rows)) * 3 - 40
    column = pa.array(numbers) if ids == "int" else pa.array([f"ö{number}" for number in numbers])
    return pa.table({"id": column, "y": np.round(random.uniform(0, 10, rows), 2)})


def saved(table: pa.Table, folder: Path, name="input") -> Path:
    file = folder / f"{name}.parquet"
    pq.write_table(table, file)
    return file


def frame_of(spark, table: pa.Table, folder: Path, name="input"):
    return spark.read.parquet(str(saved(table, folder, name)))


def release(frame, folder: Path, **options) -> Message:
    """A cheap release: no prior is bought, so that nothing is designed."""
    usual = {"label": "y", "id": "id", "epsilon": 1, "domain": DOMAIN, "mechanism": "randomized-response"}
    return labeldp.spark.privatize(frame, **({"out": folder / "message"} | usual | options))


def on_one_machine(message: Message, file: Path, key_file: Path, folder: Path, id_type: str | None = None) -> pa.Table:
    """What the Arrow engine makes of the same records under the same key, release and mechanism."""
    with KeyFile.use(key_file) as keys:
        key = keys.key
    source = LabelSource(file, message.header.label_column, message.header.id_column, id_type)
    return drawn_by_arrow(source, message.mechanism, folder, key, bytes.fromhex(message.header.release))


def drawn_by_arrow(
    source: LabelSource, mechanism: FiniteMechanism, folder: Path, key: bytes = KEY, release: bytes = RELEASE
) -> pa.Table:
    domain = mechanism.domain
    labels = ArrowInput(source).in_unit(domain)
    scanned = labels.scan(domain, key=key, out_of_range="clip-all")
    work, target = folder / "work", folder / "arrow.parquet"
    work.mkdir(exist_ok=True)
    job = DrawJob(mechanism=mechanism, domain=domain, key=key, release=release, labels=target, work=work)
    labels.randomize(job, scanned)
    return pq.read_table(target)


def assert_same(found: pa.Table, expected: pa.Table) -> None:
    assert found.column_names == expected.column_names
    for name in expected.column_names:
        assert found[name].to_pylist() == expected[name].to_pylist(), name


@dataclass(frozen=True)
class Shared:
    """A broadcast that never left the process."""

    value: FiniteMechanism


def arrow_schema(fields: StructType) -> pa.Schema:
    return to_arrow_schema(fields)


def draw_task(mechanism: FiniteMechanism, id_kind: str, *, with_id=False) -> DrawTask:
    bound = KeyedRandomness(KEY, RELEASE).bound(mechanism.digest_bytes)
    schema = arrow_schema(row_schema(id_kind, mechanism.outputs.size, with_id=with_id))
    reader = RecordReader(id_kind, mechanism.domain.unit)
    return DrawTask(reader, Shared(mechanism), mechanism.domain, bound, MultisetHash.subkeys(KEY), schema)


def order_task(mechanism: FiniteMechanism, id_kind: str, id_name="id") -> OrderTask:
    ids = StringType() if id_kind == "str" else LongType()
    fields = [
        StructField(id_name, ids, nullable=False),
        StructField("code", code_type(mechanism.outputs.size), nullable=False),
        StructField("private_label", DoubleType(), nullable=False),
    ]
    return OrderTask(Shared(mechanism), arrow_schema(StructType(fields)))


def shown(error: BaseException) -> str:
    """All that Python would print of an error, its causes included."""
    return "".join(traceback.format_exception(error))


@dataclass
class Place:
    """A folder with a ledger that has a budget of 3, and what a refusal must leave as it was."""

    folder: Path

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.folder / "ledger.db")

    @contextmanager
    def refused(self, said: str, *secrets: str, charged=0, error=LabelDPError):
        """A block that must raise an error with these words and without the secrets, and charge and leave nothing more."""
        before = {path.name for path in self.folder.iterdir()}
        with pytest.raises(error, match=said) as refusal:
            yield refusal
        assert not [secret for secret in secrets if secret in shown(refusal.value)]
        assert self.ledger.remaining("sales") == 3 - charged
        assert {path.name for path in self.folder.iterdir()} - before <= {"key"}

    def release(self, frame, **options) -> Message:
        given = {"ledger": self.ledger, "dataset": "sales"} | options
        return release(frame, self.folder, **given)
