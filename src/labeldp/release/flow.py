"""The path of every release, on any engine: plan, charge, draw, publish, commit.

The guarantees depend on the order of the steps. The input is read, and everything that can fail is checked, before the
ledger is charged. Nothing is drawn from the labels before the charge. The folder appears by one rename, complete with
its manifest.

Each kind of release has a subclass of `ReleaseJob`. It supplies the exact pass over the input with the plan (`read`), and the draw
with its proof and its card (`draw`): `labels.py` and `sums.py` here, `score.py` and `report.py` in `evaluate/`.
"""

from __future__ import annotations

import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from labeldp.artifact.card import Card
from labeldp.artifact.manifest import seal
from labeldp.artifact.signing import SigningKey
from labeldp.artifact.staging import os_reason, publish, staging
from labeldp.budget import decimal_text
from labeldp.errors import InvalidInput, LabelDPError, PrivacyRefused, expect_path
from labeldp.release.account import Account, Charge, ChargeRequest
from labeldp.release.key_file import KeyFile
from labeldp.release.ledger import Ledger
from labeldp.release_kind import ReleaseKind
from labeldp.tables.files import Phase


@dataclass(frozen=True)
class Ready:
    """A release that was read, checked and planned. Subclasses add the data for their draw.

    `request` identifies the release for resuming it. Each of the `records` records takes at least `row_bytes` on disk.
    """

    request: ChargeRequest
    records: int
    row_bytes: int


@dataclass(frozen=True)
class Drawn:
    """The result of a draw: its proven cost, the text of the description, the card, and a function that counts the rows of a data file."""

    epsilon: Fraction
    description: str
    card: Card
    count: Callable[[Path], int]
    value: Any


@dataclass(frozen=True)
class Run:
    """A release under way: who pays, and where `draw` writes. `data` is a new file or folder of parts, and `work` an empty folder."""

    account: Account
    charge: Charge
    data: Path
    work: Path
    phase: Phase


R = TypeVar("R", bound=Ready)


class ReleaseJob(ABC, Generic[R]):
    """One release to make, with its input and its settings. Every kind of release has its subclass."""

    kind: ClassVar[ReleaseKind]
    epsilon: Fraction
    unit: str = "record"
    """The unit of privacy: each record, or each person with all records."""
    covered: str | None = None
    """The release whose charge covers this one, if several labels share the persons."""

    def check(self, out: Path, key_file: Path | None) -> None:  # noqa: ARG002
        """Raise `InvalidInput` for settings and paths that cannot work. Nothing is read."""
        if not self.kind.resumable and os.path.lexists(out):
            raise in_the_way(out)

    @abstractmethod
    def read(self, account: Account, phase: Phase) -> R:
        """Read and check the whole input, and plan the release. Raise all errors that are possible before the charge."""

    @abstractmethod
    def draw(self, ready: R, run: Run) -> Drawn:
        """Draw, and write the data."""

    def earlier(self, out: Path, signing: SigningKey | None, account: Account) -> Callable[[R], tuple[Charge, Any]]:  # noqa: ARG002
        """Open the folder at `out` if an earlier run wrote this release there. Raise `InvalidInput` if it is anything else.

        Return a function that verifies this after the input was read, and returns the charge and the value of the draw.
        """
        raise in_the_way(out)


def release(
    job: ReleaseJob[R],
    out: str | os.PathLike[str],
    *,
    ledger: Ledger | None = None,
    dataset: str | None = None,
    key_file: str | os.PathLike[str] | None = None,
    sign_key: str | os.PathLike[str] | None = None,
    phase: Phase = lambda name, rows: None,  # noqa: ARG005
) -> tuple[R, Any, bool]:
    """Make a release and put its folder at `out`. `privatize` documents the parameters.

    Return the input, the value of the draw, and whether an earlier run had begun the release.
    """
    expect_path(out, "out", "the release is a new folder")
    if key_file is not None:
        expect_path(key_file, "key_file", "the key is kept in a file, which is created if it does not exist")
    out, key_path = Path(out), None if key_file is None else Path(key_file)
    Account(job.epsilon, ledger, dataset, unit=job.unit)  # raises errors about the ledger before anything is made
    job.check(out, key_path)
    check_places(out, key_path)
    signing = None if sign_key is None else SigningKey.read(sign_key, out)
    with ExitStack() as stack:
        keys = None if key_path is None else stack.enter_context(KeyFile.use(key_path, create=True))
        place = stack.enter_context(staging(out.absolute()))
        account = Account(job.epsilon, ledger, dataset, keys, job.unit, job.covered)
        earlier = job.earlier(out, signing, account) if os.path.lexists(out) else None
        if earlier is None:
            account.require()
        ready = job.read(account, phase)
        if earlier is None:
            _check_space(place, ready)
            charge = account.charge(ready.request)
            run = Run(account, charge, job.kind.batch_path(place / "release", 0), place / "work", phase)
            value = _draw_and_publish(job, ready, run, out, signing)
        else:
            charge, value = earlier(ready)
        if job.kind.resumable:
            _commit(out, account, charge)
    return ready, value, charge.resumed


def check_places(out: Path, key_file: Path | None) -> None:
    """Raise `InvalidInput` if the folder of the release cannot be made, or would contain the key file."""
    folder = out.absolute().parent
    if not folder.is_dir():
        raise InvalidInput(f"the folder {folder} for the release does not exist: make it first")
    if key_file is not None and key_file.resolve().is_relative_to(folder.resolve() / out.name):
        raise InvalidInput(
            f"the key file {key_file} is inside the folder {out} and would be sent along with it. Anyone with both can undo the "
            "noise: move the key file out first"
        )


def in_the_way(out: Path) -> InvalidInput:
    """Return the error for a path that exists."""
    return InvalidInput(f"{out} exists and is not overwritten: choose another --out")


def _draw_and_publish(job: ReleaseJob[R], ready: R, run: Run, out: Path, signing: SigningKey | None) -> Any:
    account, charge, folder = run.account, run.charge, run.data.parent
    try:
        folder.mkdir()
        run.work.mkdir()
        drawn = job.draw(ready, run)
        if drawn.epsilon > account.epsilon:
            raise PrivacyRefused(
                f"the release would cost ε = {decimal_text(drawn.epsilon)}, but only ε = {decimal_text(account.epsilon)} was "
                "charged. Nothing was released. This is a bug: please report it"
            )
        card = replace(drawn.card, dataset=account.dataset, date=account.date, release=charge.id)
        papers = drawn.description, card.text()
        seal(folder, job.kind, charge.id, drawn.epsilon, papers, drawn.count, signing)
        if job.kind.resumable:
            account.record(charge.id, folder)
        publish(folder, out.absolute())
    except (OSError, MemoryError) as error:
        left = "" if os.path.lexists(out) else " No part of it was left."
        raise LabelDPError(f"cannot write {out}: {os_reason(error)}.{left} {account.after_failure()}") from error
    return drawn.value


def _commit(out: Path, account: Account, charge: Charge) -> None:
    try:
        account.commit(charge.id, out)
    except LabelDPError as error:
        again = " Run the same command again to record it" if account.keys is not None else ""
        raise LabelDPError(
            f"{out} is complete and paid for, but this could not be recorded: {error}.{again}"
        ) from error


def _check_space(place: Path, ready: Ready) -> None:
    """Raise `InvalidInput` if the disk space is certainly insufficient."""
    needed, free = ready.row_bytes * ready.records, shutil.disk_usage(place).free
    if free < needed:
        raise InvalidInput(
            f"{ready.records:,} rows need more than {needed / 1e6:,.1f} MB in {place.parent}, but only {free / 1e6:,.1f} MB "
            "are free. Nothing was charged: make room or choose another place"
        )
