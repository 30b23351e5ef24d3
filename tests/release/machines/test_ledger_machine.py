"""A ledger and a plain-Python model of it go through the same random steps, and must agree after each."""

# ruff: noqa: PT017 - either ending is right, and each is judged by the model
from __future__ import annotations

import shutil
import sqlite3
import tempfile
from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import hypothesis.strategies as st
import pytest
from crashes import Crash, crash_at_statement
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from lengths import few_steps, many_steps

from labeldp import Domain, InsufficientBudget, LabelDPError, Ledger
from labeldp.mechanisms import Request, design
from labeldp.release.ledger import key_fingerprint

NAMES = ["sales", "Sales", "visits"]
BUDGETS = ["1", "2.5", "1/3", "7"]
EPSILONS = ["0.1", "0.5", "1", "1/3", "2"]
MECHANISMS = [
    design("randomized-response", Request(Domain(0, 3, cells=4), e)) for e in (Fraction(1, 10), Fraction(1, 2), 2)
]
KEYS = [key_fingerprint(bytes([number]) * 32) for number in range(2)]
INPUTS = ["ab" * 32, "cd" * 32]
REQUESTS = [None, "squared"]
CRASHES = st.integers(0, 8) | st.just(0)


@dataclass
class Charge:
    dataset: str
    epsilon: Fraction
    same: tuple | None
    mechanism: str | None = None
    committed: bool = False


class LedgerMachine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
        self.folder = Path(tempfile.mkdtemp(prefix="labeldp-machine-", dir=memory))
        self.budgets: dict[str, Fraction] = {}
        self.charges: dict[str, Charge] = {}

    def teardown(self):
        shutil.rmtree(self.folder)

    @initialize()
    def create(self):
        self.ledger = Ledger.create(self.folder / "ledger.db")

    def remaining(self, dataset):
        return self.budgets[dataset] - sum(c.epsilon for c in self.charges.values() if c.dataset == dataset)

    @rule(name=st.sampled_from(NAMES), budget=st.sampled_from(BUDGETS), crash=CRASHES)
    def add_dataset(self, name, budget, crash):
        try:
            with crash_at_statement(crash):
                self.ledger.add_dataset(name, budget)
        except Crash:
            return
        except LabelDPError as error:
            assert "already" in str(error)
            assert name.casefold() in {known.casefold() for known in self.budgets}
            return
        assert name.casefold() not in {known.casefold() for known in self.budgets}
        self.budgets[name] = Fraction(budget)

    @precondition(lambda self: self.budgets)
    @rule(
        pick=st.integers(0, 2),
        epsilon=st.sampled_from(EPSILONS),
        same=st.none() | st.tuples(st.sampled_from(KEYS), st.sampled_from(INPUTS), st.sampled_from(REQUESTS)),
        crash=CRASHES,
    )
    def reserve(self, pick, epsilon, same, crash):
        dataset = list(self.budgets)[pick % len(self.budgets)]
        names = {} if same is None else dict(zip(("key_check", "input_hmac", "request"), same, strict=True))
        enough = Fraction(epsilon) <= self.remaining(dataset)
        try:
            with crash_at_statement(crash):
                release = self.ledger.reserve(dataset, epsilon, **names)
        except Crash:
            return  # before COMMIT: the charge must not be there, which `agrees` checks
        except InsufficientBudget as refusal:
            assert not enough
            assert refusal.remaining == self.remaining(dataset)
            return
        assert enough
        assert release.id not in self.charges
        self.charges[release.id] = Charge(dataset, Fraction(epsilon), same)

    @precondition(lambda self: self.charges)
    @rule(pick=st.integers(0, 20), mechanism=st.sampled_from(MECHANISMS), crash=CRASHES)
    def fix(self, pick, mechanism, crash):
        name, charge = self.pick(pick)
        try:
            with crash_at_statement(crash):
                self.ledger.fix(name, mechanism)
        except Crash:
            return
        except LabelDPError:
            assert charge.mechanism not in (None, mechanism.digest) or mechanism.epsilon_exact > charge.epsilon
            return
        assert charge.mechanism in (None, mechanism.digest)
        assert mechanism.epsilon_exact <= charge.epsilon
        charge.mechanism = mechanism.digest

    @precondition(lambda self: self.charges)
    @rule(pick=st.integers(0, 20), crash=CRASHES)
    def commit(self, pick, crash):
        name, charge = self.pick(pick)
        try:
            with crash_at_statement(crash):
                self.ledger.commit(name)
        except Crash:
            return
        except LabelDPError as error:
            assert "is not fixed yet" in str(error)
            assert charge.mechanism is None
            return
        assert charge.mechanism is not None
        charge.committed = True

    @precondition(lambda self: self.budgets)
    @rule(
        pick=st.integers(0, 2),
        epsilon=st.sampled_from(EPSILONS),
        same=st.tuples(st.sampled_from(KEYS), st.sampled_from(INPUTS), st.sampled_from(REQUESTS)),
    )
    def find_resumable(self, pick, epsilon, same):
        dataset = list(self.budgets)[pick % len(self.budgets)]
        key_check, input_hmac, request = same
        found = self.ledger.find_resumable(
            dataset, epsilon, key_check=key_check, input_hmac=input_hmac, request=request
        )
        wanted = (dataset, Fraction(epsilon), same)
        fitting = [n for n, c in self.charges.items() if (c.dataset, c.epsilon, c.same) == wanted and not c.committed]
        fixed = [name for name in fitting if self.charges[name].mechanism is not None]
        assert (found is None) == (not fitting)
        assert found is None or found.id in (fixed or fitting)

    @rule(where=st.floats(0, 1), how=st.sampled_from(["cut", "flip", "zeros"]), bit=st.integers(0, 7))
    def damage(self, where, how, bit):
        """A damaged file is refused in plain words, or what it says is believed; it never ends in another error."""
        whole = self.ledger.path.read_bytes()
        spot = int(where * (len(whole) - 1))
        changed = {
            "cut": whole[:spot],
            "flip": whole[:spot] + bytes([whole[spot] ^ (1 << bit)]) + whole[spot + 1 :],
            "zeros": whole[:spot] + bytes(len(whole[spot : spot + 64])) + whole[spot + 64 :],
        }[how]
        self.ledger.path.write_bytes(changed)
        steps = [lambda: Ledger(self.ledger.path), self.ledger.datasets, self.ledger.history]
        steps += [lambda name=name: self.ledger.reserve(name, "0.1") for name in self.budgets]
        for step in steps:
            try:
                step()
            except LabelDPError as error:
                assert len(str(error)) > 20  # says what to do
        self.ledger.path.write_bytes(whole)
        self.ledger.path.with_name("ledger.db-journal").unlink(missing_ok=True)

    def pick(self, number):
        return list(self.charges.items())[number % len(self.charges)]

    @invariant()
    def agrees(self):
        if not hasattr(self, "ledger"):
            return
        with closing(sqlite3.connect(self.ledger.path)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        found = {
            r.id: Charge(
                r.dataset,
                r.epsilon,
                None if r.key_check is None else (r.key_check, r.input_hmac, r.request),
                r.mechanism_digest,
                committed=r.state == "committed",
            )
            for r in self.ledger.history()
        }
        assert found == self.charges
        assert {d.name: d.budget for d in self.ledger.datasets()} == self.budgets
        for dataset in self.ledger.datasets():
            assert dataset.remaining == self.remaining(dataset.name) >= 0
        assert sorted(path.name for path in self.folder.iterdir()) == ["ledger.db"]
        self.ledger.verify()


def test_a_ledger_does_what_its_model_does_in_hundreds_of_random_steps():
    run_state_machine_as_test(LedgerMachine, settings=few_steps(examples=20))


@pytest.mark.slow
def test_a_ledger_does_what_its_model_does_in_thousands_of_random_steps():
    run_state_machine_as_test(LedgerMachine, settings=many_steps(examples=100, steps=50))
