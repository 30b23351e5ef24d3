"""Releases and batches on real files go through random steps, crashes and changed inputs, beside a plain-Python model.

After each step: an outsider who saw every message, every copy and even what a crash left in hidden folders has seen one code
for each record of a release; the ledger has charged what the model says; every message is whole.
"""

from __future__ import annotations

import gc
import itertools
import json
import shutil
import tempfile
import warnings
from contextlib import nullcontext
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from crashes import Crash, crash_at
from hypothesis import currently_in_test_context, event
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from lengths import few_steps, many_steps

from labeldp import (
    Domain,
    InsufficientBudget,
    LabelDPError,
    LabelRandomizer,
    LabelSource,
    Ledger,
    Message,
    apply,
    privatize,
)
from soaking.outsider import INTERRUPTED, Outsider, leftovers, open_message

# A process that is killed closes no files.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(autouse=True)
def closed_files():
    """Close the files that a crash left open now, while that is ignored, and not in whichever test the garbage collector runs."""
    yield
    gc.collect()


BUDGET = 14
KINDS = {"int64": pa.int64(), "uint64": pa.uint64(), "text": pa.string(), "large text": pa.large_string()}
FIRST_IDS = [0, 2**63 - 15]
"""Ids from here on, modulo 2⁶⁴. The second ones are negative as int64 and positive as uint64."""

MOST_EVENTS = 80
"""A run has fewer."""

CRASHES = st.none() | st.tuples(st.integers(1, MOST_EVENTS), st.booleans())
"""No crash, or the event at which it comes and whether it is hard."""


@dataclass(frozen=True)
class Input:
    """Records: ids from `first` on, in one of four types and two formats of files, with labels that a seed makes."""

    first: int
    count: int
    labels: int
    kind: str = "int64"
    changed: int = 0
    """So many labels, from the first one on, are others than the seed's."""
    file: str = "parquet"

    def write(self, path):
        ids = [(self.first + i) % 2**64 for i in range(self.count)]
        if self.kind == "int64":
            ids = [i - 2**64 if i >= 2**63 else i for i in ids]
        elif "text" in self.kind:
            ids = [f"r{i}" for i in ids]
        labels = np.random.default_rng(self.labels).uniform(0, 100, self.count)
        labels[: self.changed] = 100 - labels[: self.changed]
        table = pa.table({"id": pa.array(ids, KINDS[self.kind]), "y": labels})
        path = path.with_suffix(f".{self.file}")
        (pq.write_table if self.file == "parquet" else pa_csv.write_csv)(table, path)
        return LabelSource(path, "y", "id")


@dataclass(frozen=True)
class Asked:
    """What a run of `privatize` is asked for."""

    input: Input
    epsilon: int = 1
    upper: int = 100
    mechanism: str = "rr-on-bins"
    key: str | None = "key-a"
    out: str = "message-a"
    keep_order: bool = False

    @property
    def same(self):
        """What a run must have in common with an earlier one to go on with its release, besides the key."""
        return (self.input, self.epsilon, self.upper, self.mechanism)

    def change(self, what):
        return {
            "nothing": self,
            "labels": replace(self, input=replace(self.input, labels=self.input.labels + 1)),
            "one label": replace(self, input=replace(self.input, changed=1 - self.input.changed)),
            "ids": replace(self, input=replace(self.input, first=(self.input.first + 3) % 2**64)),
            "sign": replace(self, input=replace(self.input, kind=other_kind(self.input.kind))),
            "file": replace(self, input=replace(self.input, file="csv" if self.input.file == "parquet" else "parquet")),
            "epsilon": replace(self, epsilon=3 - self.epsilon),
            "domain": replace(self, upper=220 - self.upper),
            "mechanism": replace(self, mechanism="randomized-response"),
            "key": replace(self, key={"key-a": "key-b", "key-b": None, None: "key-a"}[self.key]),
            "order": replace(self, keep_order=not self.keep_order),
            "place": replace(self, out="message-b" if self.out == "message-a" else "message-a"),
        }[what]


INPUT_CHANGES = ["nothing", "labels", "one label", "ids", "sign", "file"]
CHANGES = [*INPUT_CHANGES, "epsilon", "domain", "mechanism", "key", "order", "place"]
INPUTS = st.builds(
    Input,
    st.sampled_from(FIRST_IDS),
    st.sampled_from([25, 40]),
    st.integers(0, 1),
    st.sampled_from(list(KINDS)),
    file=st.sampled_from(["parquet", "parquet", "csv"]),
)
ASKED = st.builds(
    Asked,
    INPUTS,
    mechanism=st.sampled_from(["rr-on-bins", "randomized-response"]),
    key=st.sampled_from(["key-a", "key-a", "key-b", None]),
    out=st.sampled_from(["message-a", "message-b"]),
)


def other_kind(kind):
    """A type in which the same ids look alike."""
    return {"int64": "uint64", "uint64": "int64", "text": "large text", "large text": "text"}[kind]


class ReleaseMachine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
        self.folder = Path(tempfile.mkdtemp(prefix="labeldp-machine-", dir=memory))
        self.inputs = Path(tempfile.mkdtemp(prefix="labeldp-machine-", dir=memory))
        self.outsider = Outsider()
        self.spent = Fraction(0)
        self.open: dict[str, tuple] = {}
        """What was asked for and the key, of each release that is charged and not committed."""
        self.last = Asked(Input(0, 25, 0))
        self.batch: tuple | None = None
        self.begun: dict[str, Input] = {}
        """The batch that a crashed run of `apply` may have begun, by message."""
        self.number = itertools.count()

    def teardown(self):
        shutil.rmtree(self.folder)
        shutil.rmtree(self.inputs)

    @initialize()
    def create(self):
        self.ledger = Ledger.create(self.folder / "ledger.db")
        self.ledger.add_dataset("data", BUDGET)

    # Releases

    @rule(asked=ASKED, crash=CRASHES)
    def release(self, asked, crash):
        self.last = asked
        self.run(asked, crash)

    @rule(what=st.sampled_from(["nothing", *CHANGES]), crash=CRASHES)
    def release_again(self, what, crash):
        """The last release once more, as it was or with one thing changed. What was changed stays so for the next step."""
        self.last = self.last.change(what)
        self.run(self.last, crash)

    @rule(asked=ASKED, when=st.integers(1, MOST_EVENTS), hard=st.booleans(), what=st.sampled_from(CHANGES))
    def release_crashed_then_changed(self, asked, when, hard, what):
        """The step on which most rests: a crash, a run with one thing changed, and the first one to its end."""
        self.last = asked
        self.run(asked, (when, hard))
        self.run(asked.change(what), None)
        self.run(asked, None)

    def run(self, asked, crash):
        known = {entry.id for entry in self.ledger.history()}
        key = self.key(asked.key)
        resumable = key is not None and any(was == (asked.same, key) for was in self.open.values())
        in_place = self.release_at(asked.out)
        source = asked.input.write(self.inputs / f"{next(self.number)}")
        domain = Domain(0, asked.upper, cells=5)
        outcome = refusal = None
        try:
            with warnings.catch_warnings(), self.crashing(crash):
                warnings.simplefilter("ignore")
                outcome = privatize(
                    source,
                    LabelRandomizer(asked.epsilon, domain, mechanism=asked.mechanism),
                    self.folder / asked.out,
                    ledger=self.ledger,
                    dataset="data",
                    key_file=None if asked.key is None else self.folder / asked.key,
                    keep_order=asked.keep_order,
                )
        except Crash:
            pass
        except LabelDPError as error:
            refusal = error
        note_end("release", outcome, refusal)
        self.account(asked, known, outcome, refusal, resumable=resumable)
        if refusal is not None:
            self.judge(refusal, asked, resumable=resumable, in_place=in_place)
        elif outcome is not None:
            self.check_clean(asked.out, asked.key)

    def account(self, asked, known, outcome, refusal, *, resumable):
        """Enters a new charge into the model. A run that resumes makes none, and neither does one that is refused."""
        new = [entry for entry in self.ledger.history() if entry.id not in known]
        assert len(new) <= 1
        if outcome is not None:
            assert len(new) == int(not outcome.resumed)
        assert not (refusal is not None and new), f"refused and charged: {refusal}"
        assert not (resumable and new), "a release that could be resumed was charged again"
        for entry in new:
            assert entry.epsilon == asked.epsilon
            self.spent += entry.epsilon
            self.open[entry.id] = (asked.same, self.key(asked.key) or entry.id)
        for entry in self.ledger.history():
            if entry.state == "committed":
                self.open.pop(entry.id, None)

    def judge(self, refusal, asked, *, resumable, in_place):
        """A refusal must have its reason in the model."""
        text = str(refusal)
        if isinstance(refusal, InsufficientBudget):
            assert not resumable
            assert BUDGET - self.spent < asked.epsilon
        elif "exists and was made with keep_order" in text:
            assert in_place is not None
        elif "exists and is not overwritten" in text:
            assert in_place is not None
            own = self.open.get(in_place)
            its_own = own is not None and own == (asked.same, self.key(asked.key))
            assert not its_own or self.interrupted(asked.out), "its own message is in its way"
        else:
            raise AssertionError(f"an unknown refusal: {text}")

    # Batches

    @precondition(lambda self: self.messages())
    @rule(
        pick=st.integers(0, 1),
        overlap=st.integers(0, 10),
        count=st.integers(1, 30),
        labels=st.integers(5, 7),
        crash=CRASHES,
    )
    def add(self, pick, overlap, count, labels, crash):
        """A batch of which some ids are in the first one, with other labels."""
        out = self.messages()[pick % len(self.messages())]
        ids = open_message(self.folder / out).to_arrow().column(0)
        kind = next(
            name for name, kind in KINDS.items() if kind == ids.type or (name == "text" and "string" in str(ids.type))
        )
        largest = max(int(str(value).removeprefix("r")) % 2**64 for value in ids.to_pylist())
        batch = Input((largest + 1 - overlap) % 2**64, count, labels, kind)
        self.batch = (out, batch)
        self.run_batch(out, batch, crash)

    @precondition(lambda self: self.batch is not None)
    @rule(what=st.sampled_from(INPUT_CHANGES), crash=CRASHES)
    def add_again(self, what, crash):
        """The last batch once more, as it was or changed."""
        out, batch = self.batch
        batch = Asked(batch).change(what).input
        self.batch = (out, batch)
        if (self.folder / out).exists():
            self.run_batch(out, batch, crash)

    def run_batch(self, out, batch, crash, *, outdated=False):
        release = self.release_at(out)
        name, pending = self.kept(release)
        begun = self.begun.get(out)
        source = batch.write(self.inputs / f"{next(self.number)}")
        before = self.codes(out)
        outcome = refusal = None
        try:
            with warnings.catch_warnings(), self.crashing(crash):
                warnings.simplefilter("ignore")
                outcome = self.apply(out, source, name)
        except Crash:
            if pending is None:  # otherwise that one is still the batch that was begun
                self.begun[out] = batch
        except LabelDPError as error:
            refusal = str(error)
        note_end("batch", outcome, refusal)
        after = self.codes(out)
        assert before.items() <= after.items(), "a record that was there is gone or has another code"
        if outcome is not None:
            assert name is not None
            assert pending is None or replace(batch, kind=begun.kind, file=begun.file) == begun
            assert len(after) - len(before) == outcome.records or outcome.resumed
            assert outcome.records + outcome.already_held == batch.count
            self.check_clean(out, name)
        if refusal is not None:
            assert after == before
            self.judge_batch(refusal, name, pending, batch, begun, outdated=outdated)

    def apply(self, out, source, name):
        return apply(self.folder / out, source, key_file=self.folder / (name or "key-a"), ledger=self.ledger)

    def judge_batch(self, refusal, name, pending, batch, begun, *, outdated):
        reasons = {
            "there is no key file": name is None,
            "made without --key-file": name is None,
            "is not the key of": name is None,
            "begun and not finished": pending is not None and batch != begun,
            "do not fit into": True,
            "would never be the same records": batch.file == "csv",  # where integers from 2⁶³ on are text
            "outdated copy": outdated,
            "differ from the ones that": outdated,
        }
        assert any(text in refusal and fits for text, fits in reasons.items()), f"an unknown refusal: {refusal}"

    # Outdated copies and damage

    @precondition(lambda self: self.messages())
    @rule(
        pick=st.integers(0, 1),
        thing=st.sampled_from(["message", "key file"]),
        count=st.integers(1, 5),
        crash=CRASHES,
    )
    def add_to_an_outdated_copy(self, pick, thing, count, crash):
        """A batch is added. Then the message or the key file is put back as it was, and another batch is tried."""
        out = self.messages()[pick % len(self.messages())]
        name, pending = self.kept(self.release_at(out))
        if name is None or pending is not None:
            return
        thing = self.folder / (out if thing == "message" else name)
        old, new = self.inputs / "old", self.inputs / "new"
        move(thing, old)
        before = self.codes(out)
        self.add(pick, 0, count, 5, None)
        added = self.codes(out) != before
        move(thing, new)
        move(old, thing)
        held = self.codes(out)
        _, batch = self.batch
        self.run_batch(out, replace(batch, labels=9), crash, outdated=added)
        self.run_batch(out, replace(batch, labels=9), None, outdated=added)
        if added:
            assert self.codes(out) == held, "an outdated copy was added to"
            move(new, thing)
        self.outsider.look(self.folder)

    @precondition(lambda self: self.messages())
    @rule(
        pick=st.integers(0, 50),
        where=st.floats(0, 1),
        how=st.sampled_from(["cut", "flip"]),
        bit=st.integers(0, 7),
    )
    def damage(self, pick, where, how, bit):
        """A damaged file is refused in plain words, or makes no difference; a run on it shows no record a second code."""
        files = [path for path in sorted(self.folder.rglob("*")) if path.is_file()]
        files = [path for path in files if not path.relative_to(self.folder).parts[0].startswith(".")]
        file = files[pick % len(files)]
        out = self.messages()[pick % len(self.messages())]
        name, _ = self.kept(self.release_at(out))
        whole = file.read_bytes()
        later = dict(self.outsider.later)
        copies = {self.folder / part: self.inputs / f"whole-{part}" for part in {out, name or "key-a", "ledger.db"}}
        for path, copy in copies.items():
            move(path, copy)
        spot = int(where * (len(whole) - 1))
        flipped = whole[:spot] + bytes([whole[spot] ^ (1 << bit)]) + whole[spot + 1 :]
        file.write_bytes(whole[:spot] if how == "cut" else flipped)
        source = Input(500, 3, 1).write(self.inputs / "damage")
        steps = [
            lambda: Message.open(self.folder / out).to_arrow(),
            self.ledger.verify,
            lambda: (self.apply(out, source, name), self.outsider.read(self.folder / out)),
        ]
        for step in steps:
            try:
                step()
            except LabelDPError as error:
                assert len(str(error)) > 20  # noqa: PT017 - either is right: refused with a reason, or read
        file.write_bytes(whole)
        (self.folder / "ledger.db-journal").unlink(missing_ok=True)  # of the damaged one
        for path, copy in copies.items():
            move(copy, path)
        self.outsider.later = later  # the ledger was put back too

    # What the model asks of the files

    def crashing(self, crash):
        when, hard = crash or (0, False)
        return crash_at(when, str(self.folder), hard=hard)

    def messages(self):
        return sorted(path.name for path in self.folder.glob("message-?"))

    def release_at(self, out):
        return open_message(self.folder / out).header.release if (self.folder / out).exists() else None

    def interrupted(self, out):
        """Whether a batch is in the message and not listed: readers refuse it until `apply` has run again."""
        try:
            Message.open(self.folder / out)
        except LabelDPError as error:
            return INTERRUPTED in str(error)
        return False

    def codes(self, out):
        """The code of each id in a message."""
        table = open_message(self.folder / out).to_arrow()
        return dict(zip(table.column(0).to_pylist(), table["code"].to_pylist(), strict=True))

    def key(self, name):
        path = self.folder / (name or "none")
        return json.loads(path.read_text())["key"] if path.exists() else None

    def kept(self, release):
        """The key file that knows a release, and the fingerprint of its batch that is begun and not finished."""
        for name in ("key-a", "key-b"):
            if (self.folder / name).exists():
                for kept in json.loads((self.folder / name).read_text())["releases"]:
                    if kept["id"] == release:
                        return name, kept["pending"]
        return None, None

    def check_clean(self, out, key):
        """A run that ended well leaves a message that readers accept and nothing hidden, whatever crashed before it."""
        Message.open(self.folder / out)
        own = [f".{name}." for name in (out, key) if name is not None]
        left = [name for name in leftovers(self.folder) if name.startswith(tuple(own)) or name.endswith("-journal")]
        assert left == []

    @invariant()
    def promises_hold(self):
        if not hasattr(self, "ledger"):
            return
        self.outsider.look(self.folder)
        self.outsider.compare(self.ledger)
        (dataset,) = self.ledger.datasets()
        assert dataset.spent == self.spent <= BUDGET
        expected = {"ledger.db", "key-a", "key-b", "message-a", "message-b"}
        assert {p.name for p in self.folder.iterdir() if not p.name.startswith(".")} <= expected


def note_end(job, outcome, refusal):
    """Counts how runs ended, for `pytest --hypothesis-show-statistics`."""
    if currently_in_test_context():
        resumed = outcome is not None and outcome.resumed
        how = ("resumed" if resumed else "finished") if outcome else "crashed" if refusal is None else "refused"
        event(f"{job} {how}")


def move(path, to):
    """Copies a file or folder to `to`, in place of what is there."""
    if to.is_dir():
        shutil.rmtree(to)
    else:
        to.unlink(missing_ok=True)
    if path.is_dir():
        shutil.copytree(path, to)
    elif path.exists():
        shutil.copy2(path, to)


def test_releases_keep_their_promises_in_hundreds_of_random_steps():
    run_state_machine_as_test(ReleaseMachine, settings=few_steps(examples=10))


@pytest.mark.parametrize("what", ["sign", "one label"])
@pytest.mark.parametrize("every", [6, pytest.param(1, marks=pytest.mark.slow)])
def test_a_release_that_crashed_at_any_event_pays_for_one_draw_whatever_comes_next(what, every):
    """What the machine tries at random, at every event. The same 64 bits with another sign were once drawn anew."""
    for when in range(1, MOST_EVENTS, every):
        machine = ReleaseMachine()
        machine.create()
        asked = Asked(Input(FIRST_IDS[1], 25, 0))
        try:
            for step, crash in ((asked, (when, True)), (asked.change(what), None), (asked, None)):
                machine.run(step, crash)
                machine.promises_hold()
        finally:
            machine.teardown()


@pytest.mark.parametrize("job", ["release", pytest.param("batch", marks=pytest.mark.slow)])
def test_a_run_that_is_interrupted_at_any_event_ends_as_interrupted_and_leaves_no_copy_of_the_key(job):
    """A copy that stayed once made the run fail a second time, with "File exists" in place of the interruption."""
    finished, when = False, 0
    while not finished:
        when += 1
        machine = ReleaseMachine()
        machine.create()
        source = Input(0, 25, 0).write(machine.inputs / "first")
        randomizer = LabelRandomizer(1, Domain(0, 100, cells=5), mechanism="randomized-response")
        kept = {"ledger": machine.ledger, "key_file": machine.folder / "key-a"}
        crash = machine.crashing((when, False))
        try:
            with crash if job == "release" else nullcontext():
                privatize(source, randomizer, machine.folder / "message-a", dataset="data", **kept)
            if job == "batch":
                with crash:
                    apply(machine.folder / "message-a", Input(25, 3, 1).write(machine.inputs / "second"), **kept)
            finished = True
        except Crash:
            finished = False
        assert not [name for name in leftovers(machine.folder) if name.endswith("-new")]
        machine.teardown()
    assert 40 < when < MOST_EVENTS


@pytest.mark.slow
def test_releases_keep_their_promises_in_thousands_of_random_steps():
    run_state_machine_as_test(ReleaseMachine, settings=many_steps(examples=50, steps=40))
