"""Releases of private labels: `privatize`, on files and on any engine.

A run that fails at any point can be repeated: with the same key and the same input it continues the same release at no
further cost, and keyed randomness gives every record the same draw. No label is randomized before the mechanism is
stored.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from labeldp.artifact.card import message_card
from labeldp.artifact.description import Header, PersonUnit, describe, total_epsilon
from labeldp.artifact.labels_file import LabelsFile, check_id_name
from labeldp.artifact.manifest import read_manifest
from labeldp.artifact.reader import Message
from labeldp.artifact.signing import SigningKey
from labeldp.budget import decimal_text, exact_epsilon
from labeldp.domain import Domain
from labeldp.engines.arrow.arrow_input import ArrowInput
from labeldp.engines.arrow.source import LabelSource
from labeldp.engines.passes import DrawJob, LabelInput, PersonEntries, Scan
from labeldp.errors import InvalidInput, expect
from labeldp.losses import Custom, LossLike, get_loss
from labeldp.mechanisms import FiniteMechanism
from labeldp.mechanisms.prediction import EXPLAINED, ModelErrors
from labeldp.priors import Prior
from labeldp.release.account import Account, Charge, ChargeRequest
from labeldp.release.flow import Drawn, Ready, ReleaseJob, Run, in_the_way, release
from labeldp.release.key_file import KeptRelease
from labeldp.release.ledger import Ledger
from labeldp.release.ledger_rows import Release
from labeldp.release.randomizer import LabelRandomizer, Plan
from labeldp.release_kind import LABELS
from labeldp.tables.files import Phase


@dataclass(frozen=True)
class ReleaseOutcome:
    """The outcome of a run of `privatize` or `apply`. It is for the labels party, which must not pass on `clipped`.

    Attributes
    ----------
    message : Path
        The message's folder.
    mechanism : FiniteMechanism
        The mechanism that randomized the labels.
    records : int
        The number of records that this run added to the message.
    clipped : int
        The number of labels outside the bounds, which were moved to them. This count is private: ε does not cover it.
    resumed : bool
        Whether the run continued, or found finished, a release that an earlier run had begun.
    already_held : int
        The number of records of a later batch that were already in the message; they keep their private labels.
    left_out : int
        If the unit of privacy is a person, the number of records without a private label, because other records of
        their persons were chosen, or because their persons are in an earlier batch.
    message_records : int
        The number of records in the message after the run, in all its batches.
    unit : {"record", "person"}
        The unit of privacy: each record, or each person with all records.
    entries : int
        The maximum number of labels per person in the message; 1 if the unit of privacy is a record.

    Examples
    --------
    >>> import tempfile
    >>> import pyarrow as pa, pyarrow.parquet as pq
    >>> from labeldp import LabelRandomizer, LabelSource, privatize
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pq.write_table(pa.table({"amount": [20.0, 80.0, 50.0, 30.0] * 99 + [500.0] * 4}), f"{folder}/sales.parquet")
    ...     source = LabelSource(f"{folder}/sales.parquet", "amount")
    ...     outcome = privatize(source, LabelRandomizer(epsilon=1, domain=(0, 100)), f"{folder}/message")
    >>> outcome.records, outcome.clipped, outcome.resumed
    (400, 4, False)
    """

    message: Path
    mechanism: FiniteMechanism = field(repr=False)
    records: int
    clipped: int = field(repr=False)
    resumed: bool
    already_held: int = 0
    left_out: int = field(default=0, kw_only=True, repr=False)
    unit: str = field(default="record", kw_only=True, repr=False)
    entries: int = field(default=1, kw_only=True, repr=False)
    message_records: int = field(kw_only=True, repr=False)


def privatize(
    source: LabelSource | LabelInput,
    randomizer: LabelRandomizer,
    out: str | os.PathLike[str],
    *,
    ledger: Ledger | None = None,
    dataset: str | None = None,
    key_file: str | os.PathLike[str] | None = None,
    keep_order: bool = False,
    sign_key: str | os.PathLike[str] | None = None,
    phase: Phase = lambda name, rows: None,  # noqa: ARG005
) -> ReleaseOutcome:
    """Randomize the labels in a file and write them as a message for the features party.

    The message is a folder that appears complete or not at all. Files of any size are processed in bounded memory.

    Parameters
    ----------
    source : LabelSource or LabelInput
        The labels and their ids, in a file or as the input of an engine. The file is read more than once and must not
        change in between.
    randomizer : LabelRandomizer
        The budget ε, the bounds of the labels, the loss and the mechanism.
    out : str or Path
        The folder to write. It must not exist yet.
    ledger : Ledger, optional
        The ledger to charge.
    dataset : str, optional
        The name of the dataset in the ledger. Required with a ledger.
    key_file : str or Path, optional
        The file for the secret key; it is created if it does not exist. With it, a failed run can be repeated at no
        further cost, and `apply` can add later batches. Without it, the key is discarded when the run ends.
    keep_order : bool, default False
        Whether to write the rows in the order of the input. If that order depends on the labels, it reveals them. By
        default the order depends only on the ids. Without an id column the ids are row numbers and show the order of
        the input in any case.
    sign_key : str or Path, optional
        Your private Ed25519 key, a PEM file without a password that only you can read. The message is signed with it,
        and anyone with the public key can verify that it is yours and unchanged.
    phase : callable, optional
        For progress bars: called with the name and the number of rows (or None) of each phase; returns None or a function
        that is called with the number of rows done since the last call.

    Returns
    -------
    ReleaseOutcome

    Raises
    ------
    InvalidInput
        If the input, a setting or a path cannot be used; if more than 20 % of the labels lie outside the bounds; or if `out` exists and is not
        the message of this same release. Nothing is charged then.
    InsufficientBudget
        If the ledger has less than ε left for the dataset. This is checked before a label is read.
    LabelDPError
        If the message cannot be written. The error states what was charged and how to continue.

    Warns
    -----
    ClippingWarning
        If more than 5 % of the labels lie outside the bounds. The share is private: it is not in the message.

    See Also
    --------
    apply : Add later batches to a message.
    Message : Read a message.
    LabelRandomizer : The same for labels in an array.

    Privacy
    -------
    The message is ε-label-DP for replacing one label, with the ε of `randomizer`. If the source has a column of
    persons, this holds for replacing all labels of one person; which rows exist and whom they belong to is not
    protected. It is charged to the ledger before anything is drawn from the labels. Resuming a release, or repeating a
    finished one, charges nothing. The ids are in the message unchanged. Without an id column they are the row numbers,
    so the message shows the order of the input: if that order depends on the labels, it reveals them, and ε does not
    cover this.

    Examples
    --------
    >>> import tempfile
    >>> import pyarrow as pa, pyarrow.parquet as pq
    >>> from labeldp import LabelRandomizer, LabelSource, Ledger, privatize
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sales = pa.table({"order": range(400), "amount": [20.0, 80.0] * 200})
    ...     pq.write_table(sales, f"{folder}/sales.parquet")
    ...     ledger = Ledger.create(f"{folder}/ledger.db")
    ...     _ = ledger.add_dataset("sales", budget=3)
    ...     outcome = privatize(
    ...         LabelSource(f"{folder}/sales.parquet", "amount", "order"),
    ...         LabelRandomizer(epsilon=1, domain=(0, 100)),
    ...         f"{folder}/message",
    ...         ledger=ledger,
    ...         dataset="sales",
    ...     )
    ...     print(ledger.remaining("sales"))
    2
    >>> outcome  # doctest: +ELLIPSIS
    ReleaseOutcome(message=...Path('.../message'), records=400, resumed=False, already_held=0)
    """
    expect(randomizer, LabelRandomizer, "randomizer", "make one with LabelRandomizer(epsilon=1, domain=(lower, upper))")
    kind = LabelRelease(as_input(source).in_unit(Domain.of(randomizer.domain)), randomizer, keep_order=keep_order)
    return run_release(kind, out, ledger=ledger, dataset=dataset, key_file=key_file, sign_key=sign_key, phase=phase)


def run_release(kind: LabelRelease, out: str | os.PathLike[str], **options: Any) -> ReleaseOutcome:
    """Make a release of labels, with the options of `release`, and return its outcome."""
    ready, (mechanism, records), resumed = release(kind, out, **options)
    scanned = ready.scanned
    return ReleaseOutcome(
        Path(out),
        mechanism,
        ready.records,
        scanned.clipped,
        resumed=resumed,
        left_out=scanned.records - ready.records,
        unit=kind.unit,
        entries=ready.plan.entries,
        message_records=records,
    )


def as_input(source: LabelSource | LabelInput) -> LabelInput:
    """Return the input of an engine unchanged, and a file as the input of the engine for one machine."""
    if isinstance(source, LabelSource):
        return ArrowInput(source)
    if not hasattr(source, "scan"):
        expect(
            source, LabelSource, "source", 'make one with LabelSource("labels.parquet", "label column", "id column")'
        )
    return source


@dataclass(frozen=True)
class LabelsReady(Ready):
    """Scanned labels, and the plan for them. The mechanism is already designed unless it needs a private prior."""

    scanned: Scan
    plan: Plan
    mechanism: FiniteMechanism | None


@dataclass(frozen=True)
class Sharing:
    """Label columns that share the persons: their names and weights, and the maximum number of labels of a person in all of them."""

    labels: tuple[str, ...]
    weights: tuple[int, ...]
    entries: int | None = None


class LabelRelease(ReleaseJob[LabelsReady]):
    """The release of one private label for each record, or for chosen records of each person."""

    kind = LABELS

    def __init__(
        self,
        labels: LabelInput,
        randomizer: LabelRandomizer,
        *,
        keep_order: bool = False,
        sharing: Sharing | None = None,
        covered: str | None = None,
    ) -> None:
        self.labels, self.randomizer, self.keep_order = labels, randomizer, keep_order
        self.sharing, self.covered = sharing, covered
        self.domain, self.epsilon = Domain.of(randomizer.domain), exact_epsilon(randomizer.epsilon)
        self.unit = "record" if labels.person_column is None else "person"

    def check(self, out: Path, key_file: Path | None) -> None:
        """Raise `InvalidInput` for options that the engine does not support, and for paths inside the input."""
        check_engine(self.labels, out, key_file, keep_order=self.keep_order)

    def read(self, account: Account, phase: Phase) -> LabelsReady:
        """Scan the labels, and plan for their number. If the number is known, they are counted at once, which saves a pass."""
        rows = self.labels.row_count()
        known = rows and self.unit == "record"  # the scan rejects an empty file; with persons, the scan chooses
        plan = self.randomizer.plan(rows) if rows and known else None
        counted = self.domain if self.domain.classes else None if plan is None or plan.split is None else plan.grid
        scanned = self.labels.scan(
            self.domain,
            key=account.key,
            out_of_range=self.randomizer.out_of_range,
            grid=counted,
            progress=phase("checking", rows),
        )
        self.domain.judge_clipping(scanned.clipped, scanned.records, self.randomizer.out_of_range)
        if self.domain.classes is not None and scanned.counts is not None:
            self.domain.require_every_class(scanned.counts)
        if scanned.persons is not None:
            sizes, entries = scanned.persons.sizes(), None if self.sharing is None else self.sharing.entries
            plan = self.randomizer.plan(scanned.records, sizes, entries)
            scanned = scanned.choose(plan.entries)
            if scanned.drawn == 0:
                raise InvalidInput(
                    f"no row was chosen for the label {self.labels.label_column!r}: there are too few persons for its weight"
                )
            if self.sharing is not None:  # other labels get the rest
                plan = self.randomizer.plan(scanned.drawn, sizes, plan.entries)
        elif plan is None or plan.request.records != scanned.records:
            plan = self.randomizer.plan(scanned.records)
        plan.warn(stacklevel=4)
        request = ChargeRequest(
            LABELS, self._settings(scanned, plan), scanned.input_hmac, scanned.id_kind, plan.entries
        )
        mechanism = plan.design() if plan.split is None else None
        return LabelsReady(request, scanned.drawn, self.labels.least_row_bytes, scanned, plan, mechanism)

    def draw(self, ready: LabelsReady, run: Run) -> Drawn:
        """Fix the mechanism, and randomize every label with it."""
        account, charge = run.account, run.charge
        mechanism = self._mechanism(ready, run)
        account.fix(charge, mechanism, ready.request)
        account.serve(charge.id, ready.scanned.persons)
        job = DrawJob(
            mechanism=mechanism,
            domain=self.domain,
            key=account.key,
            release=bytes.fromhex(charge.id),
            labels=run.data,
            work=run.work,
            advice=account.after_change(),
            keep_order=self.keep_order,
        )
        self.labels.randomize(job, ready.scanned, run.phase("randomizing", 2 * ready.records))
        header = self._header(charge.id, ready, account)
        return Drawn(
            header.entries * total_epsilon(mechanism),
            describe(mechanism, header),
            message_card(mechanism, header, ready.records),
            lambda path: LabelsFile(path, header, mechanism).count_written(),
            (mechanism, ready.records),
        )

    def earlier(
        self, out: Path, signing: SigningKey | None, account: Account
    ) -> Callable[[LabelsReady], tuple[Charge, tuple[FiniteMechanism, int]]]:
        """Open the existing message. It must be known and have the requested signature."""
        try:
            found = Message.open(out)
        except InvalidInput:
            raise in_the_way(out) from None
        held = None if found.signature is None else found.signature.key
        if held != (None if signing is None else signing.verify_key.fingerprint):
            raise InvalidInput(
                f"{out} exists, and is {'not signed' if held is None else f'signed with the key {held}'}. It is not overwritten: "
                "choose another --out, or repeat the command with the --sign-key that it had"
            )
        if signing is not None:
            read_manifest(out, LABELS, signing.verify_key)  # a manifest can name any key
        known = account.recall(found.header.release)
        if known is None:
            raise in_the_way(out)
        return lambda ready: self._repeat(found, known, ready, account)

    def _repeat(
        self, message: Message, known: Release | KeptRelease, ready: LabelsReady, account: Account
    ) -> tuple[Charge, tuple[FiniteMechanism, int]]:
        """Return a message that an earlier run completed, if it is the same release. At most its commit was missing."""
        if (known.input_hmac, known.request) != (ready.request.input_hmac, ready.request.settings):
            raise InvalidInput(
                f"{message.path} exists and is not overwritten. The key file knows it: it was made from another input, with other "
                "settings or by another engine. Repeat the original command; another --out is a new release, charged again"
            )
        asked = self._header(known.id, ready, account)
        for name, has in vars(message.header).items():
            if has != (wanted := getattr(asked, name)) and name not in ("dataset", "date"):
                raise InvalidInput(
                    f"{message.path} exists and was made with {name} = {has!r}, but this command asks for {wanted!r}. It is not "
                    "overwritten: repeat the original command, or choose another --out, which makes a new release"
                )
        charge = Charge(known.id, message.mechanism.to_json(), resumed=True)
        account.fix(charge, message.mechanism, ready.request)
        account.expect_recorded(charge.id, message.path)
        return charge, (message.mechanism, message.records)

    def _mechanism(self, ready: LabelsReady, run: Run) -> FiniteMechanism:
        """Return the mechanism of a resumed release, or design one. A private prior, if needed, is drawn here, for ε₁."""
        if run.charge.mechanism is not None:
            return FiniteMechanism.from_json(run.charge.mechanism)
        if ready.mechanism is not None:
            return ready.mechanism
        scanned, grid = ready.scanned, ready.plan.grid
        if scanned.counts is not None and scanned.grid == grid:
            return ready.plan.design(scanned.counts)
        account, progress = run.account, run.phase("counting", scanned.drawn)
        advice = account.after_change()
        counts = self.labels.count_cells(grid, scanned, key=account.key, advice=advice, progress=progress)
        return ready.plan.design(counts)

    def _header(self, release_id: str, ready: LabelsReady, account: Account) -> Header:
        column, found = self.labels.person_column, ready.scanned.persons
        return Header(
            release_id,
            id_column=self.labels.id_name,
            id_type=ready.scanned.id_kind,
            keep_order=self.keep_order,
            keyed=account.keys is not None,
            row_numbers=self.labels.id_column is None,
            label_column=self.labels.label_column,
            persons=None
            if column is None or found is None
            else PersonUnit(
                column, found.kind, ready.plan.entries, () if self.sharing is None else self.sharing.labels
            ),
            dataset=account.dataset,
            date=account.date,
        )

    def _settings(self, scanned: Scan, plan: Plan) -> str:
        """Return the settings as text. Only a run with the same settings may resume a release."""
        prior = self.randomizer.prior
        given = None if prior is None else hashlib.sha256(prior.values.tobytes() + prior.masses.tobytes()).hexdigest()
        persons = scanned.persons
        return json.dumps(
            {
                "epsilon": decimal_text(self.epsilon),
                "domain": self.domain.to_json(),
                "loss": _loss_text(self.randomizer.loss, self.domain),
                "mechanism": self.randomizer.mechanism,
                "prior": given,
                "id": self.labels.id_column,
                "id_type": scanned.id_kind,
                "id_arrow_types": scanned.id_types,
                **({} if persons is None else {"person": [self.labels.person_column, persons.kind, plan.entries]}),
                **({} if persons is None or self.sharing is None else self._shared(persons)),
            },
            sort_keys=True,
        )

    def _shared(self, persons: PersonEntries) -> dict[str, Any]:
        assert self.sharing is not None
        shared = [list(self.sharing.labels), list(self.sharing.weights), persons.fingerprint]
        return {"shared": shared, "part": [self.covered, self.labels.label_column]}


def check_engine(labels: LabelInput, out: Path, key_file: Path | None, *, keep_order: bool = False) -> None:
    """Raise `InvalidInput` for options that an engine does not support, and for paths that would mix up input, message and key."""
    if keep_order and not labels.keeps_order:
        raise InvalidInput(
            "this engine cannot write rows in the order of the input: leave out keep_order (--keep-order)"
        )
    check_id_name(labels.id_name)
    labels.check_places(out, key_file)


def expected_figures(plan: Plan) -> dict[str, Any]:
    """Return the figures of a planned release, for `privatize --dry-run`. No labels are read and nothing is charged.

    `expected_loss` (of a label), `model_error` (of a model trained on all rows, for squared loss) and `outputs` assume
    the given public prior, or else a uniform one.
    """
    grid, request = plan.grid, plan.request
    prior = request.prior if request.prior is not None else Prior.uniform(grid)
    mechanism = plan.design_for(prior)
    rule, bounds = get_loss(request.loss), Domain(grid.lower, grid.upper)
    valid = bool(rule.valid_outputs.contains(mechanism.outputs).all())
    models = ModelErrors(request.prior, domain=bounds, public=request.prior is not None)
    auto = plan.mechanism == "auto"  # then it equals the number from `advise`
    model = (
        models.labels(request.epsilon, request.known_records) if auto else models.of(mechanism, request.known_records)
    )
    return {
        "rows": request.records,
        "entries": plan.entries,
        "cells": grid.count,
        "lower": grid.lower,
        "upper": grid.upper,
        "unit": grid.unit,
        "classes": None if grid.classes is None else list(grid.classes),
        "mechanism": plan.mechanism,
        "loss": str(request.loss),
        "epsilon_prior": float(plan.epsilon_prior),
        "epsilon_labels": float(mechanism.epsilon_exact),
        "assumed_prior": "flat" if request.prior is None else "given",
        "expected_loss": mechanism.expected_loss(prior, request.loss) if valid else math.inf,
        "model_error": model.mse if rule.name == "squared" else None,
        "explained": EXPLAINED,
        "outputs": mechanism.outputs,
    }


def _loss_text(loss: LossLike, domain: Domain) -> str:
    """Return a text that identifies a loss. For a function, a digest of its values on the bounds is added to its name."""
    rule = get_loss(loss)
    if not isinstance(rule, Custom):
        return loss if isinstance(loss, str) else rule.name
    grid = np.linspace(domain.lower, domain.upper, 33)
    values = np.ascontiguousarray(rule(grid[:, None], grid[None, :]), "<f8")
    return f"{rule.name} {hashlib.sha256(values.tobytes()).hexdigest()}"
