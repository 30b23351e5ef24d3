"""`report`: figures of labels by group, from the labels themselves or from a message of private labels."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from labeldp.artifact.reader import Message
from labeldp.budget import Epsilon
from labeldp.domain import Domain, OutOfRange
from labeldp.engines.arrow.source import LabelSource
from labeldp.errors import InvalidInput, expect_path
from labeldp.evaluate.estimates import evaluated_labels
from labeldp.evaluate.groups import SMALLEST_GROUP, Groups
from labeldp.evaluate.report import Report, report_labels, report_private
from labeldp.learn.feature_tables import one_array
from labeldp.learn.joined_features import joined_features
from labeldp.release.ledger import Ledger
from labeldp.tables.feature_file import FeatureFile
from labeldp.tables.files import Phase


def report(
    source: LabelSource | Message,
    *,
    by: str | None = None,
    epsilon: Epsilon | None = None,
    domain: Domain | tuple[float, float] | None = None,
    out: str | os.PathLike[str] | None = None,
    quantiles: Sequence[float] = (0.5,),
    features: str | os.PathLike[str] | None = None,
    id: str | None = None,  # noqa: A002 - the name that train has
    delimiter: str | None = None,
    smallest_group: int = SMALLEST_GROUP,
    out_of_range: OutOfRange = "clip",
    ledger: Ledger | None = None,
    dataset: str | None = None,
    sign_key: str | os.PathLike[str] | None = None,
    phase: Phase = lambda name, rows: None,  # noqa: ARG005
) -> Report:
    """Report the number of records, the mean and quantiles of the labels in each group, or the rates of classes, with 95 % intervals.

    Parameters
    ----------
    source : LabelSource or Message
        The labels themselves, for their owner, with the column of groups in the same file. If the source has a column of persons, ε is for
        all labels of a person together: a person with k rows counts as one, each row with a weight of 1/k. Or a message of private labels, for
        anyone who has the features: it costs nothing more, and gives means or rates only.
    by : str, optional
        The column of groups, which are public. By default all records are one group.
    epsilon : float, str, Decimal or Fraction, optional
        What a report of labels costs.
    domain : Domain or (lower, upper), optional
        The public bounds of the labels, never read off them; or `Domain.of_classes`.
    out : str or Path, optional
        The folder of a report of labels. It must not exist yet.
    quantiles : sequence of float, default (0.5,)
        The quantiles of a report of labels, which take half of ε. Without any, all of it is for the means. Not for classes.
    features : str or Path, optional
        For a message: the file of features with the column of groups.
    id : str, optional
        For a message: the id column of the features.
    delimiter : str, optional
        For a message: the delimiter of a text file of features, found from its header line by default.
    smallest_group : int, default 20
        Groups with fewer records, or fewer persons, are merged into one.
    out_of_range : {"clip", "clip-all", "error"}, default "clip"
        What happens to labels outside the bounds.
    ledger : Ledger, optional
        Charge ε to `dataset` in this ledger before anything is drawn.
    dataset : str, optional
        The dataset in `ledger` to charge.
    sign_key : str or Path, optional
        Your private Ed25519 key, as in `privatize`. The folder is signed with it.
    phase : callable, optional
        For progress bars, as in `privatize`.

    Returns
    -------
    Report

    Raises
    ------
    InvalidInput
        If labels, groups or settings are refused. Nothing is charged then.
    InsufficientBudget
        If the ledger has less than ε left.

    Privacy
    -------
    A report of labels is ε-DP for replacing one label by another valid one, or all labels of one person; groups and the number of records in each are public, and a label touches
    one group only, so that groups share nothing. A report of a message costs nothing.

    Examples
    --------
    See `labeldp.evaluate.Report`.
    """
    if isinstance(source, Message):
        given: dict[str, object] = {"epsilon": epsilon, "domain": domain, "out": out}
        given |= {"ledger": ledger, "dataset": dataset, "sign_key": sign_key}
        if wrong := [name for name, value in given.items() if value is not None]:
            raise InvalidInput(
                f"{wrong[0]} is for a report of labels: a report of a message costs nothing and writes no folder"
            )
        if source.mechanism.prior is None and source.classes is None:
            raise InvalidInput(
                "a report of a message needs classes, or numbers with their prior, and this one lacks a prior: make a report of labels"
            )
        return _of_message(source, by, features, id, delimiter, smallest_group, phase)
    if not isinstance(source, LabelSource):
        raise InvalidInput(
            f"source must be a LabelSource or a Message, got {type(source).__name__}: make one with LabelSource(path, label_column)"
        )
    if features is not None or id is not None or delimiter is not None:
        raise InvalidInput(
            "features, id and delimiter are for the report of a message: the groups of labels are in the file of labels, "
            "and LabelSource takes its delimiter"
        )
    if epsilon is None or domain is None or out is None:
        raise InvalidInput(
            "a report of labels needs epsilon, domain and out: its cost, the public bounds and a new folder"
        )
    charged: dict[str, Any] = {"ledger": ledger, "dataset": dataset, "sign_key": sign_key}
    wanted: dict[str, Any] = {"quantiles": quantiles, "smallest_group": smallest_group, "out_of_range": out_of_range}
    return report_labels(source, by, out, epsilon, domain, phase=phase, **wanted, **charged)[0]


def _of_message(
    message: Message,
    by: str | None,
    features: str | os.PathLike[str] | None,
    id_column: str | None,
    delimiter: str | None,
    smallest_group: int,
    phase: Phase,
) -> Report:
    if by is None:
        return report_private(message.labels, None, message.epsilon_exact)
    if features is None or id_column is None:
        raise InvalidInput("the groups of a message are in a file of features: give features and id (--features, --id)")
    expect_path(features, "features", "save them to a file with a column of ids")
    file = FeatureFile.open(Path(features), delimiter)
    file.require(by)
    others = [name for name in file.names if name not in (by, id_column)]
    found = joined_features(
        message, Path(features), id_column, exclude=others, categorical=[by], delimiter=delimiter, phase=phase
    )
    groups = Groups.of(one_array(found.table.column(by)), by, features, smallest_group)
    private, _ = evaluated_labels(message, found.joined.codes)
    made = report_private(private, groups, message.epsilon_exact)
    return replace(made, without_label=found.joined.without_label, without_features=found.joined.without_features)
