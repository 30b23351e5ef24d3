"""Plays one scene: commands under faults, what must hold after each, and the same commands to their end without faults."""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path

from labeldp import LabelDPError, Ledger, Message
from soaking.disks import Disk
from soaking.outsider import Outsider, Violation, is_hot, leftovers
from soaking.processes import BROKEN, HUNG, Ended, Fault, run
from soaking.scene import Batch, Records, Release, draw_batch, draw_release, public_half

KINDS = ("kill at event", "kill at time", "interrupt", "full disk", "read-only", "clock jump", "race", "input swapped")
FIND_MOST = ("kill at event", "kill at event", "race")
"""These faults come more often than the others."""

MOST_EVENTS = {"privatize": 60, "apply": 68}
MOST_SECONDS = 0.12
PRINTED = 7
"""So many characters of a label are searched for in what a run prints, since a label may be rounded there."""

FULL = len("12.3456789")

IN_THE_WAY = ("exists and is not overwritten", "It is not overwritten")
"""How a run refuses to replace a message, the second time because of its signature or the order of its rows."""

SAME_MESSAGE = ("charge", "sign_key", "keep_order")
"""What two commands must have in common to make the same message."""

KNOWN_ENDS = {0, 1, 2, 3, 130, -9}


@dataclass
class Tally:
    """What happened in some scenes."""

    faults: Counter = field(default_factory=Counter)
    hit: Counter = field(default_factory=Counter)
    ended: Counter = field(default_factory=Counter)
    runs: int = 0
    seconds: float = 0.0

    def add(self, other: Tally) -> None:
        self.faults += other.faults
        self.hit += other.hit
        self.ended += other.ended
        self.runs += other.runs


@dataclass(frozen=True)
class Stage:
    """Where scenes are played: a folder of inputs, and two disks, for messages and for the ledger and the keys."""

    inputs: Path
    messages: Disk
    vault: Disk

    @classmethod
    def make(cls, folder: Path, *, mount: bool) -> Stage:
        (folder / "inputs").mkdir()
        disks = [Disk.make(folder / name, mount=mount) for name in ("messages", "vault")]
        return cls(folder / "inputs", *disks)

    def clear(self) -> None:
        for disk in (self.messages, self.vault, Disk(self.inputs, mounted=False)):
            disk.heal()
            disk.clear()

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(kind for kind in KINDS if kind != "read-only" or self.messages.can_be_read_only)


class Play:
    """One scene. Everything that is random in it comes from `seed`, but not the moment of a kill by time."""

    def __init__(self, stage: Stage, seed: str, bug: Callable[[], None] | None = None) -> None:
        self.stage, self.bug = stage, bug
        self.rng = random.Random(seed)
        self.tally = Tally()
        self.outsider = Outsider()
        self.tried: set[tuple] = set()
        self.labels: set[str] = set()
        self.owner: Release | None = None
        self.last = "nothing was run yet"

    def play(self) -> None:
        """Raises `Violation` if a promise is broken."""
        self.stage.clear()
        one_disk = self.rng.random() < 0.3
        vault = self.stage.messages if one_disk else self.stage.vault
        release = draw_release(self.rng, self.stage.inputs, self.stage.messages.folder, vault.folder)
        self.outsider.sign_key = release.sign_key
        release = self._release(release)
        if release.key is not None and release.ids:
            for number in range(1, 1 + self.rng.randint(1, 2)):
                self._add(release, number)
            self._outdated(release)

    # The two jobs

    def _release(self, release: Release) -> Release:
        """Faults on a release and on others in its place, then the one that came first to its end. Returns that one."""
        for number in range(self.rng.randint(1, 3)):
            self._suffer(release, lambda number=number: release.varied(self.rng, number).write())
        if self.rng.random() < 0.3:
            self._run([release.varied(self.rng, 10).write()], Fault())
        (ended,) = self._run([release], Fault())
        if ended.code == 0:
            return self._settled(release)
        if any(text in ended.err for text in IN_THE_WAY):
            return self._anothers(release)
        if ended.code == 3 and self._unaffordable(release):
            return replace(release, key=None)
        raise Violation(f"the fault is gone, but the run does not end well: {ended.said}")

    def _anothers(self, release: Release) -> Release:
        """The release whose message is in the way. That of the refused command itself must not be."""
        if self.owner is None or self.owner.key is None:
            return replace(release, key=None)  # somebody's whose run cannot be repeated: nothing can be added to it
        if all(getattr(self.owner, name) == getattr(release, name) for name in SAME_MESSAGE):
            raise Violation("the message of this very command is said to be in its way")
        (ended,) = self._run([self.owner], Fault())
        if ended.code != 0:
            raise Violation(f"the run that made the message cannot be repeated: {ended.said}")
        return self.owner

    def _unaffordable(self, release: Release) -> bool:
        return release.ledger is not None and Ledger(release.ledger).remaining("data") < Fraction(release.epsilon)

    def _settled(self, release: Release) -> Release:
        """A release that was repeated after it had ended must be found finished, and cost nothing."""
        if release.key is not None and self.rng.random() < 0.3:
            spent = self._spent(release)
            (again,) = self._run([release], Fault())
            if again.how != "resumed" or self._spent(release) != spent:
                raise Violation(f"a finished release was not found finished: {again.how}, {again.said}")
        return release

    def _add(self, release: Release, number: int) -> None:
        """Faults on a batch and on another one in its place, then both to the end."""
        batch = draw_batch(self.rng, release, number)
        other = replace(
            batch,
            records=batch.records.with_other_labels(self.rng),
            input=batch.input.with_name(f"changed{number}.parquet"),
        ).write()
        for _ in range(self.rng.randint(1, 3)):
            self._suffer(batch, lambda: other)
        if self.rng.random() < 0.5:
            self._run([other], Fault())
        (ended,) = self._run([batch], Fault())
        if ended.code != 0 and "begun and not finished" in ended.err:
            (first,) = self._run([other], Fault())
            if first.code != 0:
                raise Violation(f"neither of two batches can be added: {ended.said} / {first.said}")
            (ended,) = self._run([batch], Fault())
        if ended.code != 0:
            raise Violation(f"the fault is gone, but the batch is refused: {ended.said}")

    def _outdated(self, release: Release) -> None:
        """An outdated copy of the message or the key file adds nothing, and the newest ones work again."""
        assert release.key is not None
        before = {path: path.with_name(f"copy-of-{path.name}") for path in (release.out, release.key)}
        for path, copy in before.items():
            _copy(path, copy)
        batch = draw_batch(self.rng, release, 8)
        (added,) = self._run([batch], Fault())
        if added.code != 0:
            raise Violation(f"a batch is refused: {added.said}")
        new = '"records": 0' not in added.out
        path = self.rng.choice(list(before))
        newest = path.with_name(f"newest-of-{path.name}")
        _copy(path, newest)
        _copy(before[path], path)
        (ended,) = self._run([draw_batch(self.rng, release, 9)], Fault())
        if new and ended.code == 0:
            raise Violation(f"an outdated copy of {path.name} was added to")
        _copy(newest, path)
        for copy in (*before.values(), newest):
            _remove(copy)
        (ended,) = self._run([draw_batch(self.rng, release, 9)], Fault())
        if new and ended.code != 0:
            raise Violation(f"the newest copies are refused: {ended.said}")

    # One run or several, with a fault

    def _suffer(self, job: Release | Batch, other: Callable[[], Release | Batch]) -> None:
        """One fault of a random kind, while `job` runs, or beside `other` runs."""
        kind = self.rng.choice((*self.stage.kinds, *FIND_MOST))
        event = self.rng.randint(1, MOST_EVENTS[job.command[0]])
        after = self.rng.uniform(0, MOST_SECONDS)
        jobs = [job]
        fault = Fault(kind, bug=self.bug)
        if kind in {"kill at event", "interrupt"}:
            fault = replace(fault, event=event)
        elif kind == "kill at time":
            fault = replace(fault, after=after)
        elif kind == "clock jump":
            fault = replace(fault, jump=self.rng.choice([-20_000, -400, 400, 36_500, 1_000_000]))
            self._move_times()
            if self.rng.random() < 0.5:
                fault = replace(fault, event=event)
        elif kind == "race":
            jobs = self._racers(job, other)
            if self.rng.random() < 0.3:
                fault = replace(fault, after=after)
        elif kind == "input swapped":
            spare = job.input.with_name(f"spare{''.join(job.input.suffixes)}")
            self._swap(job, spare)
            fault = replace(fault, event=event, swap=(spare, job.input))
        disks = self._break_disks(kind)
        if kind == "full disk" and not disks:
            fault = replace(fault, largest=self.rng.choice([1, 500, 2_000, 8_000, 30_000]))
        ended = self._run(jobs, fault, heal=disks)
        struck = kind in {"clock jump", "race"} or any(end.struck or end.code != 0 for end in ended)
        if struck:
            self.tally.faults[kind] += 1
            for end in ended:
                self.tally.hit[end.last] += 1
        if kind == "input swapped":
            job.write()

    def _swap(self, job: Release | Batch, spare: Path) -> None:
        """Other labels in a spare file. If they take the place of the input before it is read, they are a request of their own."""
        records = job.records.with_other_labels(self.rng)
        records.write(spare)
        self._learn(records)
        if isinstance(job, Release):
            self.tried.add(replace(job, records=records).charge)

    def _racers(self, job: Release | Batch, other: Callable[[], Release | Batch]) -> list[Release | Batch]:
        jobs = [job] * self.rng.randint(1, 3)
        while len(jobs) < 2 or self.rng.random() < 0.4:
            jobs.append(other())
        if isinstance(job, Release) and job.ledger is not None and self.rng.random() < 0.5:
            jobs += self._contenders(job)
        return jobs

    def _contenders(self, job: Release) -> list[Release]:
        """Releases to other places from the same ledger, more of them than its budget can carry."""
        dataset = Ledger(job.ledger).datasets()[0]
        if dataset.remaining > 4:  # leave room for two of them
            Ledger(job.ledger).reserve("data", dataset.remaining - 4)
            self.tried.add(("filler", len(self.tried)))
        return [
            replace(job, out=job.out.with_name(f"rival{self.rng.randrange(10**6)}"), key=None, epsilon="2")
            for _ in range(3)
        ]

    def _break_disks(self, kind: str) -> list[Disk]:
        both = [self.stage.messages, self.stage.vault]
        disks = self.rng.choice([both[:1], both[1:], both])
        if kind == "full disk" and both[0].mounted:
            for disk in disks:
                disk.fill(self.rng.randint(0, 10))
            return disks
        if kind == "read-only":
            for disk in disks:
                disk.protect()
            return disks
        return []

    def _move_times(self) -> None:
        """Files whose times lie in the past or in the future."""
        for folder in (self.stage.inputs, self.stage.messages.folder, self.stage.vault.folder):
            for path in folder.rglob("*"):
                moment = self.rng.uniform(0, 4e9)
                os.utime(path, (moment, moment))

    def _run(self, jobs: list[Release | Batch], fault: Fault, heal: list[Disk] | None = None) -> list[Ended]:
        """Runs, ends the fault and checks all promises."""
        for job in jobs:
            self._learn(job.records)
            if isinstance(job, Release):
                lost = (len(self.tried),) if job.key is None else ()  # without a key, every run is a charge
                self.tried.add((*job.charge, *lost))
        fault = replace(fault, bug=self.bug)
        place = self.stage.messages.folder / "message"
        was_there = place.exists()
        ended = run([job.command for job in jobs], fault, self._roles)
        for disk in heal or ():
            disk.heal()
        if place.exists() and not was_there:
            makers = {(job.charge, job.sign_key): job for job in jobs if isinstance(job, Release) and job.out == place}
            self.owner = next(iter(makers.values())) if len(makers) == 1 and fault.swap is None else None
        self.tally.runs += len(ended)
        for end in ended:
            self.tally.ended[end.how] += 1
        words = [
            f"labeldp {' '.join(job.command)} -> {end.how} ({end.last})" for job, end in zip(jobs, ended, strict=True)
        ]
        self.last = f"{fault.kind}: " + "; ".join(words)
        self._check(jobs, ended, fault)
        return ended

    @property
    def _roles(self) -> dict[str, str]:
        """Parts of paths and their names in the summary; the first that fits counts."""
        return {
            "labeldp-lock": "lock",
            "labeldp-new": "new key file",
            "labeldp-partial": "hidden folder",
            "ledger.db": "ledger",
            f"{self.stage.inputs}": "input",
            f"{self.stage.vault.folder}/key": "key file",
            f"{self.stage.messages.folder}/key": "key file",
            f"{self.stage.messages.folder}": "message",
            f"{self.stage.vault.folder}": "vault",
        }

    # What must hold

    def _check(self, jobs: list[Release | Batch], ended: list[Ended], fault: Fault) -> None:
        for end in ended:
            if end.code not in KNOWN_ENDS or "Traceback" in end.err:
                what = {HUNG: "hung", BROKEN: "ended with a traceback"}.get(end.code, f"ended with {end.code}")
                raise Violation(f"a run {what}: {end.err.strip()[-600:]}")
            if any(label[:PRINTED] in end.err or label[:PRINTED] in end.out for label in self.labels):
                raise Violation("a run printed the digits of a label")
        self.outsider.look(self.stage.messages.folder)
        self._check_files()
        for job in jobs:
            if job.ledger is not None:
                self._check_ledger(job)
        if len(ended) == 1 and ended[0].code == 0:
            folders = (self.stage.messages.folder, self.stage.vault.folder)
            left = [name for name in leftovers(*folders) if not self._is_anothers(name, jobs[0])]
            # A run that writes nothing to the ledger may leave the journal of a killed one that had written nothing either.
            cold = ended[0].how == "resumed" and not any(
                is_hot(journal) for f in folders for journal in f.glob("*-journal")
            )
            left = [name for name in left if not (cold and name.endswith("-journal"))]
            if left:
                raise Violation(f"a run that ended well left {', '.join(left)}")
            self._check_whole(jobs[0])
        if fault.kind == "clock jump" and not fault.event and not _ends_as_it_may(ended[0]):
            raise Violation(f"a clock that jumps made a run fail: {ended[0].said}")

    def _check_whole(self, job: Release | Batch) -> None:
        """Readers accept the message of a run that ended well, with its signature."""
        place = job.out if isinstance(job, Release) else job.message
        verify_key = None if job.sign_key is None else public_half(job.sign_key)
        try:
            Message.open(place, verify_key=verify_key)
        except LabelDPError as error:
            raise Violation(f"a run ended well, but readers refuse its message: {error}") from error

    def _check_files(self) -> None:
        """No file that is sent or audited holds a label's digits."""
        for folder, pattern in ((self.stage.messages.folder, "*/*"), (self.stage.vault.folder, "ledger.db")):
            for path in folder.glob(pattern):
                if path.is_file() and not path.parent.name.startswith("."):
                    text = path.read_bytes().decode("latin-1")
                    if any(label in text for label in self.labels):
                        raise Violation(f"{path.name} holds the digits of a label")

    def _check_ledger(self, job: Release | Batch) -> None:
        ledger = Ledger(job.ledger)
        self.outsider.compare(ledger)
        charges = len(ledger.history())
        if charges > len(self.tried):
            raise Violation(
                f"{charges} charges for {len(self.tried)} different requests: a resumed run was charged again"
            )

    def _is_anothers(self, name: str, job: Release | Batch) -> bool:
        """Whether a killed run of another place or with another key left this file; only its own next run removes it."""
        place = job.out if isinstance(job, Release) else job.message
        own = [place.name] + ([] if job.key is None else [job.key.name])
        return name.startswith(".") and not any(name.startswith(f".{mine}.") for mine in own)

    def _spent(self, release: Release) -> object:
        return None if release.ledger is None else Ledger(release.ledger).datasets()[0].spent

    def _learn(self, records: Records) -> None:
        self.labels.update(repr(label) for label in records.labels[:200] if len(repr(label)) == FULL)


def _ends_as_it_may(end: Ended) -> bool:
    """Whether a run without a fault ended well, or was refused for what earlier runs had left."""
    reasons = (*IN_THE_WAY, "begun and not finished")
    return end.code in {0, 3} or any(reason in end.err for reason in reasons)


def _copy(path: Path, to: Path) -> None:
    _remove(to)
    if path.is_dir():
        shutil.copytree(path, to)
    else:
        shutil.copy2(path, to)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
