"""`privatize_several` and `apply_several`: several labels of the same persons, each in its own message, for one total ε."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from labeldp.artifact.description import Header, read_description
from labeldp.artifact.manifest import inner_releases
from labeldp.artifact.reader import Message
from labeldp.budget import exact_epsilon
from labeldp.domain import Domain, OutOfRange
from labeldp.engines.arrow.arrow_input import ArrowInput
from labeldp.engines.arrow.person_spill import SharedPersons
from labeldp.engines.arrow.source import LabelSource
from labeldp.errors import InvalidInput, described, expect, expect_path, is_whole
from labeldp.release.account import Account
from labeldp.release.apply import apply
from labeldp.release.flow import check_places
from labeldp.release.key_file import KeyFile
from labeldp.release.labels import LabelRelease, ReleaseOutcome, Sharing, run_release
from labeldp.release.ledger import Ledger
from labeldp.release.randomizer import LabelRandomizer
from labeldp.release_kind import LABELS
from labeldp.tables.files import Phase

MOST_WEIGHT = 100
"""The largest weight, after common factors are removed. The weight of an entry is its number of ranks."""


def privatize_several(
    source: LabelSource,
    randomizers: Mapping[str, LabelRandomizer],
    out: str | os.PathLike[str],
    *,
    key_file: str | os.PathLike[str],
    weights: Mapping[str, int] | None = None,
    ledger: Ledger | None = None,
    dataset: str | None = None,
    sign_key: str | os.PathLike[str] | None = None,
    phase: Phase = lambda name, rows: None,  # noqa: ARG005
) -> dict[str, ReleaseOutcome]:
    """Randomize several label columns of a file, and write a message for each of them. All labels of a person cost ε in total.

    A few entries of each person, each a row and a label column, are chosen independently of labels. Every message is an
    ordinary message.

    Parameters
    ----------
    source : LabelSource
        The file. It must have a column of persons; give the id column if each row is a separate person.
    randomizers : mapping of str to LabelRandomizer
        The randomizer of each label column, all with the same ε.
    out : str or Path
        The folder for the messages, one folder in it for each label column.
    key_file : str or Path
        The file for the secret key, by which the labels share the persons. A failed run continues when it is repeated.
    weights : mapping of str to int, optional
        The relative frequency with which entries of each column are chosen; 1 by default.
    ledger : Ledger, optional
        The ledger to charge, once for all labels.
    dataset : str, optional
        The name of the dataset in the ledger.
    sign_key : str or Path, optional
        Your private key, as in `privatize`.
    phase : callable, optional
        For progress bars, as in `privatize`.

    Returns
    -------
    dict of str to ReleaseOutcome
        The outcome of each label column.

    Raises
    ------
    InvalidInput
        If a column, a setting or a path cannot be used. Nothing is charged then.

    Privacy
    -------
    All messages together are ε-DP for replacing all labels of one person. Which rows exist, and whom they belong to, is not protected.

    Examples
    --------
    >>> import tempfile
    >>> import pyarrow as pa, pyarrow.parquet as pq
    >>> from labeldp import LabelRandomizer, LabelSource
    >>> from labeldp.release.several import privatize_several
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     columns = {"order": range(4000), "customer": [n // 4 for n in range(4000)]}
    ...     columns |= {"amount": [20.0, 80.0] * 2000, "days": [1, 2, 3, 4] * 1000}
    ...     pq.write_table(pa.table(columns), f"{folder}/orders.parquet")
    ...     source = LabelSource(f"{folder}/orders.parquet", "amount", "order", person_column="customer")
    ...     bounds = {"amount": (0, 100), "days": (0, 30)}
    ...     randomizers = {name: LabelRandomizer(1, domain) for name, domain in bounds.items()}
    ...     outcomes = privatize_several(source, randomizers, f"{folder}/messages", key_file=f"{folder}/key")
    >>> sum(outcome.records for outcome in outcomes.values())
    1000
    """
    expect(source, LabelSource, "source", 'make one with LabelSource("labels.parquet", "label column", "id column")')
    expect_path(out, "out", "the messages are new folders in it")
    expect_path(key_file, "key_file", "persons are shared among the labels by a key, which is kept in this file")
    labels = _checked_labels(source, randomizers)
    shares = _checked_weights(labels, weights or {})
    folder = Path(out)
    check_places(folder, Path(key_file))
    jobs = [
        LabelRelease(
            ArrowInput(replace(source, label_column=label), shared=SharedPersons(shares, number)).in_unit(domain),
            replace(randomizers[label], domain=domain),
            sharing=Sharing(labels, shares),
        )
        for number, label in enumerate(labels)
        for domain in [Domain.of(randomizers[label].domain)]
    ]
    Account(jobs[0].epsilon, ledger, dataset, unit="person")  # raises errors about the ledger before anything is read
    entries = min(_read_all(jobs, phase))
    options: dict[str, Any] = {"ledger": ledger, "dataset": dataset, "key_file": key_file, "sign_key": sign_key}
    folder.mkdir(exist_ok=True)
    outcomes: dict[str, ReleaseOutcome] = {}
    covered: str | None = None
    try:
        for label, job in zip(labels, jobs, strict=True):
            job.sharing, job.covered = Sharing(labels, shares, entries), covered
            outcomes[label] = run_release(job, folder / label, phase=phase, **options)
            covered = covered or Message.open(folder / label).header.release
    finally:
        with suppress(OSError):
            folder.rmdir()  # succeeds only if it is empty
    return outcomes


def apply_several(
    messages: str | os.PathLike[str],
    source: LabelSource,
    *,
    key_file: str | os.PathLike[str],
    ledger: Ledger | None = None,
    out_of_range: OutOfRange = "clip",
    sign_key: str | os.PathLike[str] | None = None,
    phase: Phase = lambda name, rows: None,  # noqa: ARG005
) -> dict[str, ReleaseOutcome]:
    """Add new records to all messages of several labels. New persons get entries in some of them, at no further cost.

    Parameters
    ----------
    messages : str or Path
        The folder that `privatize_several` wrote.
    source : LabelSource
        The new records, with all label columns. Its own label column is ignored.
    key_file : str or Path
        The key file that `privatize_several` was given.
    ledger : Ledger, optional
        The ledger that was charged for the messages.
    out_of_range : {"clip", "clip-all", "error"}, default "clip"
        How to handle labels outside the messages' bounds.
    sign_key : str or Path, optional
        Your private key, as in `apply`.
    phase : callable, optional
        For progress bars, as in `privatize`.

    Returns
    -------
    dict of str to ReleaseOutcome
        The outcome of each label column. If a run failed before all messages had the batch, only the columns whose
        messages lacked it.

    Raises
    ------
    InvalidInput
        If the batch does not fit a message, or some message lacks an earlier batch.

    Privacy
    -------
    Costs nothing more. All messages must get the same batches, with the same persons and ids; others are rejected.

    Examples
    --------
    >>> import tempfile
    >>> import pyarrow as pa, pyarrow.parquet as pq
    >>> from labeldp import LabelRandomizer, LabelSource
    >>> from labeldp.release.several import apply_several, privatize_several
    >>> randomizers = {"amount": LabelRandomizer(1, (0, 100)), "days": LabelRandomizer(1, (0, 30))}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name, first in (("monday", 0), ("tuesday", 4000)):
    ...         columns = {"order": range(first, first + 4000), "customer": [(first + n) // 4 for n in range(4000)]}
    ...         columns |= {"amount": [20.0, 80.0] * 2000, "days": [1, 2, 3, 4] * 1000}
    ...         pq.write_table(pa.table(columns), f"{folder}/{name}.parquet")
    ...     monday, tuesday = (
    ...         LabelSource(f"{folder}/{name}.parquet", "amount", "order", person_column="customer")
    ...         for name in ("monday", "tuesday")
    ...     )
    ...     done = privatize_several(monday, randomizers, f"{folder}/messages", key_file=f"{folder}/key")
    ...     added = apply_several(f"{folder}/messages", tuesday, key_file=f"{folder}/key")
    >>> sum(outcome.records for outcome in added.values())
    1000
    """
    expect(source, LabelSource, "source", 'make one with LabelSource("labels.parquet", "label column", "id column")')
    expect_path(messages, "messages", "give the folder with a message for each label")
    expect_path(key_file, "key_file", "give the file that privatize was given")
    folder = Path(messages)
    parts = {label: folder / label for label in shared_labels(folder)}
    with KeyFile.use(Path(key_file)) as keys:
        kept = {label: keys.find(_header(place).release) for label, place in parts.items()}
        behind = {
            label: 0 if one is None else len(one.batches) - (one.pending is not None) for label, one in kept.items()
        }
    options: dict[str, Any] = {"key_file": key_file, "ledger": ledger, "out_of_range": out_of_range}
    return {
        label: apply(parts[label], replace(source, label_column=label), sign_key=sign_key, phase=phase, **options)
        for label, batches in behind.items()
        if batches == min(behind.values())
    }


def shared_labels(folder: Path) -> tuple[str, ...]:
    """Return the labels of the messages in a folder, if they share the persons. Raise `InvalidInput` for other folders."""
    found = next(iter(inner_releases(folder)), None)
    persons = None if found is None else _header(found).persons
    if persons is None or not persons.shared:
        raise InvalidInput(f"{folder} is not a message, nor a folder with messages of several labels: check the path")
    return persons.shared


def _header(folder: Path) -> Header:
    """Return the description of a message, even if a run was killed before it listed its batch. `apply` checks everything later."""
    return read_description(folder / LABELS.description)[1]


def _read_all(jobs: list[LabelRelease], phase: Phase) -> list[int]:
    """Read every label once with a temporary key, so that all errors occur before the charge. Return the entries of each plan."""
    return [job.read(Account(job.epsilon, unit="person"), phase).plan.entries for job in jobs]


def _checked_labels(source: LabelSource, randomizers: Mapping[str, LabelRandomizer]) -> tuple[str, ...]:
    if not isinstance(randomizers, Mapping) or len(randomizers) < 2:
        raise InvalidInput(
            "give at least two label columns, each with its LabelRandomizer: for one label use privatize"
        )
    for label, randomizer in randomizers.items():
        expect(
            randomizer, LabelRandomizer, f"the randomizer of {label!r}", "make one with LabelRandomizer(1, (0, 100))"
        )
        if (
            not isinstance(label, str)
            or label in ("", ".", "..")
            or label.startswith(".")
            or {"/", "\\", "\0"} & set(label)
        ):
            raise InvalidInput(f"the label column {described(label)} cannot be the name of a folder: rename it first")
    if len({label.casefold() for label in randomizers}) < len(randomizers):
        raise InvalidInput(
            "two label columns differ only in upper and lower case, so their folders could be the same: rename one"
        )
    if len({exact_epsilon(randomizer.epsilon) for randomizer in randomizers.values()}) > 1:
        raise InvalidInput("all labels are released for one epsilon: give every randomizer the same")
    if source.person_column is None:
        raise InvalidInput(
            "several labels share the persons: name the column of persons (--person COL), or the id column if each row is a person"
        )
    if source.id_column is None:
        raise InvalidInput("several labels need the column of record ids: name it (--id COL)")
    if source.person_column in randomizers or source.id_column in randomizers:
        raise InvalidInput("a label column cannot be the column of ids or of persons too")
    return tuple(randomizers)


def _checked_weights(labels: tuple[str, ...], weights: Mapping[str, int]) -> tuple[int, ...]:
    for label, weight in weights.items():
        if label not in labels:
            raise InvalidInput(
                f"there is a weight for {described(label)}, which is not among the labels {', '.join(labels)}"
            )
        if not is_whole(weight, 1):
            raise InvalidInput(f"the weight of {label!r} must be a whole number from 1, got {described(weight)}")
    found = [int(weights.get(label, 1)) for label in labels]
    shares = tuple(weight // math.gcd(*found) for weight in found)
    if max(shares) > MOST_WEIGHT:
        raise InvalidInput(f"weights must be at most {MOST_WEIGHT} to 1: give smaller ones")
    return shares
