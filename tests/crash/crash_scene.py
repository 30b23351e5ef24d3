"""Folders with labels, a ledger that carries one release, and a process whose runs can be killed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from labeldp.domain import Domain
from labeldp.journal import stored_mechanism
from labeldp.keyfile import KeyFile
from labeldp.ledger import Ledger
from labeldp.message import Message
from labeldp.sampling import KeyedRandomness

EPSILON = 2
LATER_SHARED = 50
"""So many ids of the later batch are in the first one too, with other labels."""


@dataclass(frozen=True)
class Scene:
    """One dataset before, during and after its release."""

    folder: Path
    rows: int

    @classmethod
    def make(cls, folder: Path, rows: int, budget: int = EPSILON) -> Scene:
        folder.mkdir(exist_ok=True)
        Ledger.create(folder / "ledger.db").add_dataset("data", budget)
        rng = np.random.default_rng(rows)
        scene = cls(folder, rows)
        ids = rng.permutation(np.arange(rows, dtype=np.int64))
        scene.write("labels", ids, np.round(rng.uniform(0, 100, rows), 1))
        later = np.arange(rows - LATER_SHARED, rows + 200)
        scene.write("later", later, np.round(rng.uniform(0, 100, later.size), 1))
        return scene

    def copy(self, folder: Path) -> Scene:
        shutil.copytree(self.folder, folder)
        return replace(self, folder=folder)

    def write(self, name: str, ids, labels) -> None:
        pq.write_table(pa.table({"id": ids, "y": labels}), self.folder / f"{name}.parquet")

    def read(self, name: str):
        table = pq.read_table(self.folder / f"{name}.parquet")
        return np.asarray(table["id"]), np.asarray(table["y"])

    @property
    def message(self) -> Path:
        return self.folder / "message"

    @property
    def spent(self) -> Fraction:
        return Ledger(self.folder / "ledger.db").datasets()[0].spent

    def check_nothing_partial(self) -> None:
        """What must hold at any moment: a whole message or none, and every trace of a draw has been charged."""
        if self.message.exists():
            assert sorted(p.name for p in self.message.iterdir() if p.name != "labels") == [
                "PRIVACY.md",
                "labels.parquet",
                "mechanism.json",
            ]
            self.check_codes()
        drawn = self.message.exists() or any(self.folder.glob(".*partial/message"))
        with KeyFile.use(self.folder / "key", create=True) as keys:
            assert drawn <= bool(keys.releases)
            assert self.spent >= EPSILON * len(keys.releases)
        assert self.spent in {0, EPSILON}

    def expected_codes(self, *names: str) -> dict[int, int]:
        """What an undisturbed run gives: the stored mechanism's own codes under the stored key and release."""
        with KeyFile.use(self.folder / "key") as keys:
            (kept,) = keys.releases
            mechanism = stored_mechanism(kept.mechanism)
            randomness = KeyedRandomness(keys.key, bytes.fromhex(kept.id))
        expected: dict[int, int] = {}
        for name in names:
            ids, labels = self.read(name)
            codes = mechanism.codes(Domain(0, 100).check(labels), ids, randomness)
            fresh = {int(i): int(c) for i, c in zip(ids, codes, strict=True)}
            expected = fresh | expected  # an id keeps the code that it got first
        return expected

    def held(self) -> dict[int, int]:
        """The code of each id in the message; no id may be there twice."""
        held: dict[int, int] = {}
        for ids, codes in Message.open(self.message).batches():
            batch = dict(zip(np.asarray(ids).tolist(), codes.tolist(), strict=True))
            assert len(batch) == len(codes)
            assert not held.keys() & batch.keys()
            held |= batch
        return held

    def check_codes(self) -> None:
        names = ("labels",) if len(Message.open(self.message).files()) == 1 else ("labels", "later")
        assert self.held() == self.expected_codes(*names)

    def leftovers(self) -> list[str]:
        """Hidden things beside the message and the key, once a run has ended well."""
        return [p.name for p in self.folder.iterdir() if p.name.startswith(".") or p.name.endswith("-journal")]


class Victim:
    """The process in `victim.py`."""

    def __init__(self, folder: Path) -> None:
        Scene.make(folder, 1000)
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("victim.py")), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._folder = folder
        assert self._answer() == {"ready": True}

    def run(
        self, scene: Scene, job: str = "privatize", *, public_prior: bool = False, **when: float
    ) -> tuple[int, float]:
        """(exit code, seconds): 0 done, 1 refused, -9 killed."""
        command = {"job": job, "folder": str(scene.folder), "public_prior": public_prior, **when}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        answer = self._answer()
        return int(answer["code"]), float(answer["seconds"])

    @property
    def errors(self) -> str:
        return (self._folder / "errors.txt").read_text()

    def _answer(self) -> dict[str, float]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the victim's own process died: {self.errors}"
        return json.loads(line)

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()
