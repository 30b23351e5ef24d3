"""Runs of labeldp in which every ε-DP step gives a pinned result, and all that such a run lets others see.

Two steps of a release may look at labels: the noisy histogram and the draw of each code. `pinned` runs both for real and then
replaces what they give by numbers that no label decides, so whatever still differs between two data sets went past them. The
key, the release's id and the ledger's clock are pinned too.

A `World` is a folder in which commands run. `World.run` gives what they let others see as a flat dictionary from the name of a
channel ("standard output", "message/labels.parquet: bytes") to what it showed. `leaks` compares two of them: every channel
counts, also one that nobody thought of, unless `FOR_THE_LABELS_PARTY` excuses it.
"""

from __future__ import annotations

import io
import json
import os
import re
import secrets
import shutil
import sqlite3
import stat
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from unittest import mock

import numpy as np
import opendp.measurements
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from pyarrow import ipc

import labeldp.release.apply
import labeldp.release.flow
import labeldp.release.ledger
from labeldp.artifact import labels_file
from labeldp.artifact.staging import publish
from labeldp.cli import main
from labeldp.engines.arrow import source, spill
from labeldp.mechanisms import FiniteMechanism
from labeldp.tables import files

FOR_THE_LABELS_PARTY = {
    r"standard error \d+, for the labels party": "SECURITY.md: how many labels lay outside the bounds, marked so",
    r"key: releases/\d+/(input_hmac|pending)": "an HMAC of the labels, in a file that is as private as they are",
    r"ledger\.db: (release\[\d+\]|batch\[\d+\]|journal\[\d+\]\.entry)\.input_hmac": "the same HMAC, in a file that only its owner can read",
    r"ledger\.db: journal\[\d+\]\.hash": "a hash of the HMAC, which tells nothing without the key",
}
"""The channels that may differ, as regular expressions, and why. Nothing else may."""

PRIVATE_LINE = re.compile(r"[Kk]eep (it|this number) to yourself")
KEY, RELEASE, MOMENT = bytes(range(32)), "5eed" * 8, "2026-01-02T03:04:05+00:00"
LONG_AGO = 1_000_000_000
BLOCK_BYTES = 1 << 9
Seen = dict[str, object]


@contextmanager
def pinned(*, codes: bool = True) -> Iterator[None]:
    """Pins what is random. With `codes=False` the codes are drawn as they are in real life, under the pinned key.

    Files are read in small pieces, so that a few hundred records have the boundaries of millions.
    """
    real_draw, real_open = FiniteMechanism.draw, pyarrow.csv.open_csv

    def draw(self, labels, source, records):
        drawn = real_draw(self, labels, source, records)
        by_record = np.arange(drawn.size, dtype=np.uint64) if records is None else records.low
        return (by_record * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(40)).astype(drawn.dtype) % self.outputs.size

    def noisy(*_, **__):
        return lambda counts: [37 * (place + 1) % 23 - 2 for place in range(len(counts))]

    def open_csv(stream, read_options, **options):
        read_options.block_size = BLOCK_BYTES
        return real_open(stream, read_options=read_options, **options)

    with patches() as patch:
        patch(os, "urandom", lambda size: (KEY * (size // 32 + 1))[:size])
        patch(secrets, "token_hex", lambda size: RELEASE[: 2 * size])
        patch(labeldp.release.ledger, "_now", lambda: MOMENT)
        patch(pyarrow.csv, "open_csv", open_csv)
        for module in (files, source):
            patch(module, "BATCH_ROWS", 64)
        patch(files, "BATCH_BYTES", 1 << 11)
        patch(spill, "ROWS_PER_PARTITION", 50)
        patch(spill, "TEXT_PER_PARTITION", 1 << 10)
        for name, size in (("GROUP_ROWS", 48), ("GROUP_TEXT", 1 << 11)):
            if hasattr(labels_file, name):
                patch(labels_file, name, size)
        patch(opendp.measurements, "make_laplace", noisy)
        if codes:
            patch(FiniteMechanism, "draw", draw)
        yield


@contextmanager
def patches() -> Iterator[Callable[[object, str, object], None]]:
    """Sets attributes, which must exist, until the block ends."""
    started = []

    def patch(target, name, value):
        started.append(mock.patch.object(target, name, value))
        started[-1].start()

    try:
        yield patch
    finally:
        for one in reversed(started):
            one.stop()


class World:
    """An empty folder in which commands run, always at the same path: paths are printed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "world"

    def run(
        self,
        inputs: dict[str, Callable[[Path], None]],
        commands: Sequence[Sequence[str]],
        *,
        codes: bool = True,
        disturb: Callable[[Path], None] = lambda staged: None,
    ) -> Seen:
        """Writes the inputs, runs the commands and returns all that they let others see.

        `disturb` is called with every folder or file just before it is published: controls plant a leak there.
        """
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        before, seen = Path.cwd(), Seen()
        os.chdir(self.folder)
        try:
            for place, (name, write) in enumerate(inputs.items()):
                write(Path(name))
                os.utime(name, (LONG_AGO + place, LONG_AGO + place))
            with pinned(codes=codes):
                for number, command in enumerate(commands, 1):
                    seen |= self._run_one(number, command, disturb)
            seen |= observed(self.folder, set(inputs))
        finally:
            os.chdir(before)
        return seen

    def _run_one(self, number: int, command: Sequence[str], disturb: Callable[[Path], None]) -> Seen:
        out, err = io.StringIO(), io.StringIO()
        staged: list[Seen] = []

        def watched(path: Path, target: Path) -> None:
            staged.append(observed(path.parent, set()))  # what would be left if the process were killed now
            publish(path, target)
            disturb(target)

        with patches() as patch, redirect_stdout(out), redirect_stderr(err), warnings.catch_warnings():
            warnings.simplefilter("always")
            patch(labeldp.release.flow, "publish", watched)
            patch(labeldp.release.apply, "publish", watched)
            patch(sys, "argv", ["labeldp", *command])
            try:
                code = main() or 0
            except SystemExit as stop:
                code = stop.code or 0
        lines = err.getvalue().splitlines()
        return {
            f"exit code {number}": code,
            f"standard output {number}": out.getvalue(),
            f"standard error {number}": [line for line in lines if not PRIVATE_LINE.search(line)],
            f"standard error {number}, for the labels party": [line for line in lines if PRIVATE_LINE.search(line)],
            **{
                f"staged {number}.{place}/{name}": value
                for place, one in enumerate(staged)
                for name, value in one.items()
            },
        }


def observed(folder: Path, inputs: set[str]) -> Seen:
    """All files and folders below a folder: names, modes, sizes and contents. The inputs themselves are left out."""
    seen: Seen = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if name in inputs:
            continue
        status = path.lstat()
        seen[f"{name}: mode"] = stat.filemode(status.st_mode)
        seen[f"{name}: date"] = "of the run" if status.st_mtime > LONG_AGO + 10**6 else status.st_mtime
        seen[f"{name}: attributes"] = os.listxattr(path) if hasattr(os, "listxattr") else None
        if not path.is_file():
            continue
        seen[f"{name}: size"] = status.st_size
        if name == "key":
            seen |= {f"key: {field}": value for field, value in flat(json.loads(path.read_text()))}
        elif name == "ledger.db":
            seen |= tables(path)
        else:
            seen[f"{name}: bytes"] = path.read_bytes()
            if path.suffix == ".parquet":
                seen |= {f"{name}: {fact}": value for fact, value in parquet_facts(path).items()}
    return seen


def parquet_facts(path: Path) -> Seen:
    """What Parquet says of a file: its bytes hold all of it, but these show where a difference lies."""
    metadata = pq.read_metadata(path)
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    chunks = [group.column(place) for group in groups for place in range(group.num_columns)]
    return {
        "rows of its row groups": [group.num_rows for group in groups],
        "sizes of its column chunks": [(c.total_compressed_size, c.total_uncompressed_size) for c in chunks],
        "statistics": [c.statistics and c.statistics.to_dict() for c in chunks],
        "created by": metadata.created_by,
        "metadata": metadata.metadata,
        "schema": str(metadata.schema.to_arrow_schema()),
    }


def tables(path: Path) -> Seen:
    """Every value in every table of a ledger."""
    seen: Seen = {}
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for name in names:
            for number, row in enumerate(connection.execute(f"SELECT * FROM {name}")):
                for column in row.keys():  # noqa: SIM118
                    place, value = f"{path.name}: {name}[{number}].{column}", row[column]
                    seen |= (
                        {f"{place}.{fact}": at for fact, at in flat(json.loads(value))}
                        if column == "entry"
                        else {place: value}
                    )
    return seen


def flat(value: object, name: str = "") -> Iterator[tuple[str, object]]:
    """The leaves of a JSON document with their paths."""
    if isinstance(value, dict | list):
        for place, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from flat(inner, f"{name}/{place}" if name else str(place))
    else:
        yield name, value


def leaks(first: Seen, second: Seen) -> dict[str, tuple[str, str]]:
    """The channels in which two runs differ and the beginnings of what they showed, but for those that are excused."""
    missing = "nothing"
    names = sorted(
        name for name in first.keys() | second.keys() if first.get(name, missing) != second.get(name, missing)
    )
    return {
        name: (repr(first.get(name, missing))[:200], repr(second.get(name, missing))[:200])
        for name in names
        if not any(re.fullmatch(excused, name) for excused in FOR_THE_LABELS_PARTY)
    }


def csv_file(ids: Sequence[object] | None, labels: Sequence[object], delimiter: str = ",") -> Callable[[Path], None]:
    """A text file, packed if its name ends in .gz. Labels are written as they are: 7 and "7.00" differ in length."""

    def write(path: Path) -> None:
        rows = [["y"], *([label] for label in labels)] if ids is None else [["id", "y"], *zip(ids, labels, strict=True)]
        text = "".join(delimiter.join(map(str, row)) + "\n" for row in rows)
        with pa.output_stream(str(path), compression="gzip" if path.suffix == ".gz" else None) as stream:
            stream.write(text.encode())

    return write


def arrow_file(ids: Sequence[object], labels: Sequence[object], *, rows: int = 0) -> Callable[[Path], None]:
    """A Parquet or Arrow file, by its name, in row groups or batches of so many rows."""

    def write(path: Path) -> None:
        table = pa.table({"id": ids, "y": np.asarray(labels, np.float64)})
        size = rows or table.num_rows
        if path.suffix == ".parquet":
            pq.write_table(table, path, row_group_size=size)
            return
        opened = ipc.new_stream if path.suffix == ".arrows" else ipc.new_file
        with pa.OSFile(str(path), "wb") as sink, opened(sink, table.schema) as writer:
            writer.write_table(table, size)

    return write
