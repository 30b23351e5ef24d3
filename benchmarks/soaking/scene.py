"""A scene: made-up labels, the commands that release them, and later batches, all drawn from a seed."""

from __future__ import annotations

import gzip
import random
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from labeldp import Ledger
from labeldp.artifact.signing import write_signing_keys

MECHANISMS = ("auto", "rr-on-bins", "randomized-response", "rr-with-prior", "discrete-laplace", "discrete-staircase")
"""The default, and exact mechanisms whose designs take milliseconds on a small grid."""

BUDGET = 40


@dataclass(frozen=True)
class Records:
    """Ids and labels. The labels have digits that nothing else in a scene has, so that they can be searched for."""

    ids: tuple[int | str, ...]
    labels: tuple[float, ...]

    def with_other_labels(self, rng: random.Random) -> Records:
        return replace(self, labels=tuple(_label(rng) for _ in self.labels))

    def write(self, path: Path) -> None:
        if path.name.endswith(".parquet"):
            pq.write_table(pa.table({"id": self.ids, "y": self.labels}), path)
            return
        text = "id,y\n" + "".join(f"{name},{label!r}\n" for name, label in zip(self.ids, self.labels, strict=True))
        path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())


@dataclass(frozen=True)
class Release:
    """A `privatize` command in pieces, so that another one can differ in one of them."""

    records: Records
    input: Path
    out: Path
    epsilon: str
    upper: str
    mechanism: str
    ids: bool
    keep_order: bool
    key: Path | None
    ledger: Path | None
    sign_key: Path | None

    def write(self) -> Release:
        self.records.write(self.input)
        return self

    @property
    def command(self) -> list[str]:
        words = ["privatize", f"{self.input}", "--label", "y", "--epsilon", self.epsilon, "--lower", "0"]
        words += [
            "--upper",
            self.upper,
            "--cells",
            "11",
            "--mechanism",
            self.mechanism,
            "--out",
            f"{self.out}",
            "--json",
        ]
        words += ["--id", "id"] if self.ids else []
        words += ["--keep-order"] if self.keep_order else []
        words += [] if self.key is None else ["--key-file", f"{self.key}"]
        words += [] if self.sign_key is None else ["--sign-key", f"{self.sign_key}"]
        return words + ([] if self.ledger is None else ["--ledger", f"{self.ledger}", "--dataset", "data"])

    @property
    def charge(self) -> tuple:
        """What tells charges apart: a run that agrees in all of these with one that was killed must not be charged again."""
        return (self.records, self.ids, self.epsilon, self.upper, self.mechanism, self.key)

    def varied(self, rng: random.Random, number: int) -> Release:
        """Another command for the same place, different in one thing."""
        other = self.input.with_name(f"other{number}{''.join(self.input.suffixes)}")
        what = rng.choice(["labels", "one label", "ids", "epsilon", "upper", "mechanism", "key", "order", "signature"])
        if what == "labels":
            return replace(self, records=self.records.with_other_labels(rng), input=other)
        if what == "one label":
            _, *rest = self.records.labels
            return replace(self, records=replace(self.records, labels=(_label(rng), *rest)), input=other)
        if what == "ids":
            return replace(self, records=replace(self.records, ids=tuple(reversed(self.records.ids))), input=other)
        if what == "epsilon":
            return replace(self, epsilon=rng.choice([e for e in ("0.5", "1", "2") if e != self.epsilon]))
        if what == "upper":
            return replace(self, upper="120")
        if what == "mechanism":
            return replace(self, mechanism=rng.choice([name for name in MECHANISMS if name != self.mechanism]))
        if what == "key" and self.key is not None:
            return replace(self, key=self.key.with_name(f"key{number}"))
        if what == "signature" and self.sign_key is not None:
            return replace(self, sign_key=None)
        return replace(self, keep_order=not self.keep_order)


@dataclass(frozen=True)
class Batch:
    """An `apply` command."""

    records: Records
    input: Path
    message: Path
    key: Path
    ledger: Path | None
    sign_key: Path | None

    def write(self) -> Batch:
        self.records.write(self.input)
        return self

    @property
    def command(self) -> list[str]:
        words = ["apply", f"{self.message}", f"{self.input}", "--label", "y", "--key-file", f"{self.key}", "--json"]
        words += [] if self.sign_key is None else ["--sign-key", f"{self.sign_key}"]
        return words + ([] if self.ledger is None else ["--ledger", f"{self.ledger}"])


def draw_release(rng: random.Random, inputs: Path, messages: Path, vault: Path) -> Release:
    """A random release, its input written, and its ledger made."""
    suffix = rng.choice([".parquet", ".parquet", ".csv", ".csv.gz"])
    text_ids = rng.random() < 0.4
    rows = rng.choice([60, 60, 200, 3000])  # the histogram of 11 cells needs 44 at the smallest epsilon
    ids = rng.sample(range(10 * rows), rows)
    records = Records(tuple(f"r{i:06d}" for i in ids) if text_ids else tuple(ids), tuple(_label(rng) for _ in ids))
    ledger = vault / "ledger.db" if rng.random() < 0.85 else None
    if ledger is not None:
        Ledger.create(ledger).add_dataset("data", BUDGET)
    sign_key, *_ = write_signing_keys(vault / "sign")
    return Release(
        records,
        inputs / f"labels{suffix}",
        messages / "message",
        rng.choice(["0.5", "1", "2"]),
        "100",
        rng.choice(MECHANISMS),
        ids=rng.random() < 0.9,
        keep_order=rng.random() < 0.25,
        key=vault / "key" if rng.random() < 0.8 else None,
        ledger=ledger,
        sign_key=sign_key if rng.random() < 0.3 else None,
    ).write()


def public_half(sign_key: Path) -> Path:
    """The file that readers check a signature with."""
    return sign_key.with_name("sign-public.pem")


def draw_batch(rng: random.Random, release: Release, number: int) -> Batch:
    """A later batch: some records that the message holds, with other labels, and some new ones."""
    assert release.key is not None
    held = rng.sample(release.records.ids, rng.randint(0, min(20, len(release.records.ids))))
    first = 1_000_000 * number
    new = [
        f"r{i:06d}" if isinstance(release.records.ids[0], str) else i for i in range(first, first + rng.randint(0, 40))
    ]
    ids = held + new or release.records.ids[:1]
    rng.shuffle(ids := list(ids))
    records = Records(tuple(ids), tuple(_label(rng) for _ in ids))
    path = release.input.with_name(f"batch{number}{rng.choice(['.parquet', '.csv'])}")
    return Batch(records, path, release.out, release.key, release.ledger, release.sign_key).write()


def _label(rng: random.Random) -> float:
    return round(rng.uniform(10, 99), 7)
