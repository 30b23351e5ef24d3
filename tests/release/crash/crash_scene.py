"""Folders with labels, a ledger that carries one release, and a process whose runs can be killed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from labeldp.artifact.reader import Message, open_to_extend
from labeldp.artifact.signing import SigningKey, write_signing_keys
from labeldp.domain import Domain
from labeldp.errors import InvalidInput
from labeldp.mechanisms import FiniteMechanism
from labeldp.release.key_file import KeyFile
from labeldp.release.ledger import Ledger
from labeldp.sampling import KeyedRandomness

Rows = tuple[NDArray[np.int64], NDArray[np.uint32]]

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

    def sign(self) -> Scene:
        """The scene with a sender's keys. Its messages are signed from now on."""
        write_signing_keys(self.folder / "sender")
        return self

    def opened(self) -> Message:
        """The message as the owner's next run opens it. Readers are refused if a batch in it is not listed, else they agree."""
        key, public = self.folder / "sender-private.pem", self.folder / "sender-public.pem"
        message = open_to_extend(self.message, SigningKey.read(key, self.message) if key.exists() else None)
        verify = public if public.exists() else None
        if self.unlisted:
            with pytest.raises(InvalidInput, match="must run apply"):
                Message.open(self.message, verify_key=verify)
        else:
            assert Message.open(self.message, verify_key=verify) == message
        return message

    @property
    def unlisted(self) -> int:
        """How many batches are in the message and not in its manifest."""
        listed = json.loads((self.message / "manifest.json").read_text())["manifest"]["files"]
        return len(list(self.message.rglob("*.parquet"))) - sum(file["rows"] is not None for file in listed)

    @property
    def spent(self) -> Fraction:
        return Ledger(self.folder / "ledger.db").datasets()[0].spent

    @property
    def recorded(self) -> int:
        """How many later batches the ledger knows, once its journal and tables are checked."""
        return Ledger(self.folder / "ledger.db").verify().batches

    def check_nothing_partial(self) -> None:
        """What must hold at any moment: a whole message or none, and every trace of a draw is in the ledger."""
        if self.message.exists():
            assert sorted(p.name for p in self.message.iterdir() if p.name != "labels") == [
                "PRIVACY.md",
                "labels.parquet",
                "manifest.json",
                "mechanism.json",
            ]
            self.check_codes()
        drawn = self.message.exists() or any(self.folder.glob(".*partial/message"))
        with KeyFile.use(self.folder / "key", create=True) as keys:
            assert drawn <= bool(keys.releases)
            assert self.spent >= EPSILON * len(keys.releases)
        assert self.spent in {0, EPSILON}
        later = any(self.message.glob("labels/*")) or any(self.folder.glob(".*partial/part-*"))
        assert later <= self.recorded <= 1

    def expected(self, *names: str) -> Rows:
        """What an undisturbed run gives: the stored mechanism's own codes under the stored key and release."""
        with KeyFile.use(self.folder / "key") as keys:
            (kept,) = keys.releases
            mechanism = FiniteMechanism.from_json(kept.mechanism)
            randomness = KeyedRandomness(keys.key, bytes.fromhex(kept.id))
        ids, codes = np.empty(0, np.int64), np.empty(0, np.uint32)
        for name in names:
            new, labels = self.read(name)
            fresh = ~np.isin(new, ids)  # an id keeps the code that it got first
            drawn = mechanism.codes(Domain(0, 100).check(labels), new, randomness)
            ids, codes = np.concatenate([ids, new[fresh]]), np.concatenate([codes, drawn[fresh]])
        return by_id(ids, codes)

    def held(self) -> Rows:
        """Ids and codes in the message, in the order of the ids; no id may be there twice."""
        batches = [(np.asarray(ids), codes) for ids, codes in self.opened().batches()]
        ids, codes = by_id(*(np.concatenate(column) for column in zip(*batches, strict=True)))
        assert (np.diff(ids) > 0).all()
        return ids, codes

    def check_codes(self) -> None:
        names = ("labels",) if len(self.opened().files) == 1 else ("labels", "later")
        for held, expected in zip(self.held(), self.expected(*names), strict=True):
            assert np.array_equal(held, expected)

    def leftovers(self) -> list[str]:
        """Hidden things beside the message and the key, once a run has ended well."""
        return [p.name for p in self.folder.iterdir() if p.name.startswith(".") or p.name.endswith("-journal")]


def by_id(ids: NDArray[np.int64], codes: NDArray[np.uint32]) -> Rows:
    order = np.argsort(ids)
    return ids[order], codes[order]


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
        self._folder, self._told = folder, 0
        try:
            assert self._answer() == {"ready": True}
        except BaseException:
            self.close()
            raise

    def run(self, scene: Scene, job: str = "privatize", **how: float) -> tuple[int, float]:
        """(exit code, seconds): 0 done, 1 refused, -9 killed."""
        answer = self._ask(scene, job, how)
        return answer["codes"][0], answer["seconds"]

    def run_together(self, scene: Scene, job: str, runs: int, **how: float) -> list[int]:
        """Exit codes of runs that begin at the same time."""
        return self._ask(scene, job, {"together": runs, **how})["codes"]

    def take_errors(self) -> str:
        """What the runs complained of since this was last asked."""
        text = (self._folder / "errors.txt").read_text()[self._told :]
        self._told += len(text)
        return text

    def _ask(self, scene: Scene, job: str, how: dict[str, float]) -> dict[str, Any]:
        command = {"job": job, "folder": str(scene.folder), "public_prior": False, **how}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the victim's own process died: {self.take_errors()}"
        return json.loads(line)

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()
