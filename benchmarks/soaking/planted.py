"""Bugs to plant in a process on purpose, to see that the soak finds them. Each breaks one promise of a release."""

# ruff: noqa: ARG001, ARG005 - what is replaced has these arguments
from __future__ import annotations

import os
import secrets
import shutil
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

from labeldp.artifact import staging
from labeldp.engines.arrow import arrow_input
from labeldp.release import apply as apply_module
from labeldp.release import flow, key_file, ledger
from labeldp.release.account import Account, Charge, ChargeRequest
from labeldp.release.key_file import KeyFile


def charge_late() -> None:
    """The ledger is charged when the message is in place, not before anything is drawn."""
    fix, commit = Account.fix, Account.commit
    begun: dict[str, ChargeRequest] = {}
    fixed = {}

    def charge_none(self: Account, request: ChargeRequest) -> Charge:
        charge = Charge(secrets.token_hex(16))
        begun[charge.id] = request
        return charge

    def fix_late(self: Account, charge: Charge, mechanism, request: ChargeRequest) -> None:
        fixed[charge.id] = mechanism
        fix(replace(self, ledger=None, dataset=None), charge, mechanism, request)

    def charge_and_commit(self: Account, release: str, *rest) -> None:
        if self.ledger is not None and release in fixed and release in begun:
            ledger.secrets = SimpleNamespace(token_hex=lambda size: release)
            self._reserve(begun[release])
            self.ledger.fix(release, fixed[release])
        commit(self, release, *rest)

    Account.charge = charge_none
    Account.fix = fix_late
    Account.commit = charge_and_commit


def draw_anew() -> None:
    """Every run draws with randomness of its own, so a resumed release gives its records other codes."""
    keyed = arrow_input.KeyedRandomness
    arrow_input.KeyedRandomness = lambda key, release: keyed(os.urandom(len(key)), release)


def publish_in_pieces() -> None:
    """The message is copied to its place file by file instead of being renamed."""

    def publish(staged: Path, target: Path) -> None:
        if not staged.is_dir():
            staged.rename(target)
            return
        target.mkdir()
        for file in sorted(staged.iterdir()):
            shutil.copy(file, target)

    for module in (staging, flow, apply_module):
        module.publish = publish


def forget_begun_batches() -> None:
    """The key file does not record that a batch was begun, so another batch can take its place."""
    put = KeyFile.put
    KeyFile.put = lambda self, release: put(self, replace(release, pending=None))


def check_then_charge() -> None:
    """The budget is looked up when the run begins, and the charge rests on what was found then."""
    look, found = ledger.read_dataset, {}

    def remembered(connection, name: str):
        return found.setdefault(name, look(connection, name))

    ledger.read_dataset = remembered


def lock_nothing() -> None:
    """Runs do not wait for each other."""

    @contextmanager
    def exclusive(path: Path, what: str):
        yield

    for module in (staging, key_file):
        module.exclusive = exclusive


def quote_labels() -> None:
    """A run shows a label while it checks the input."""
    count = arrow_input.count_outside

    def shown(batch, domain, out_of_range) -> int:
        print(f"note: the first label is {batch.labels[0]}", file=sys.stderr)
        return count(batch, domain, out_of_range)

    arrow_input.count_outside = shown


def leave_work_behind() -> None:
    """A run that ends well leaves its working folder."""
    removed = staging.shutil

    class Keeping:
        def __getattr__(self, name: str):
            return self.keep if name == "rmtree" else getattr(removed, name)

        def keep(self, folder: Path, *, ignore_errors: bool = False) -> None:
            if not ignore_errors:  # the folder of a killed run, at the beginning
                removed.rmtree(folder)

    staging.shutil = Keeping()


BUGS = {
    bug.__name__.replace("_", "-"): bug
    for bug in (
        charge_late,
        draw_anew,
        publish_in_pieces,
        forget_begun_batches,
        check_then_charge,
        lock_nothing,
        quote_labels,
        leave_work_behind,
    )
}
