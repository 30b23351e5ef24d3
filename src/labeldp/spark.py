"""Releases on Apache Spark: the same messages and the same private labels as on one machine. Needs `labeldp[spark]`.

`privatize` and `apply` take a Spark frame where `labeldp.privatize` and `labeldp.apply` take a file.
`matching_features` is for a features party whose features are on a cluster. `score` answers its predictions. `sums` is for a team that has
labels and features. `docs/guides/spark.md` describes scaling and settings.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from labeldp.artifact.description import read_description
from labeldp.artifact.manifest import release_folder
from labeldp.artifact.reader import Message
from labeldp.budget import Epsilon
from labeldp.domain import Domain, OutOfRange
from labeldp.engines.spark import require_pyspark
from labeldp.errors import InvalidInput, described, expect_path
from labeldp.evaluate.groups import SMALLEST_GROUP
from labeldp.evaluate.score import ScoreOutcome
from labeldp.evaluate.score import score as score_labels
from labeldp.losses import LossLike
from labeldp.priors import Prior
from labeldp.release.apply import apply as add_batch
from labeldp.release.labels import privatize as release_labels
from labeldp.release.ledger import Ledger
from labeldp.release.private_sums import PrivateSums
from labeldp.release.randomizer import LabelRandomizer
from labeldp.release.sums import release_sums
from labeldp.release_kind import LABELS
from labeldp.tables.files import Phase

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from labeldp.engines.spark.spark_input import SparkInput

Given = ParamSpec("Given")
Outcome = TypeVar("Outcome")

__all__ = ["apply", "matching_features", "privatize", "score", "sums"]


def privatize(
    frame: DataFrame,
    *,
    label: str,
    id: str,  # noqa: A002 - called like the command's option
    epsilon: Epsilon,
    domain: Domain | tuple[float, float] | None = None,
    out: str | os.PathLike[str],
    classes: Sequence[str] | None = None,
    loss: LossLike = "squared",
    mechanism: str = "auto",
    prior: Prior | None = None,
    out_of_range: OutOfRange = "clip",
    id_type: str | None = None,
    person: str | None = None,
    ledger: Ledger | None = None,
    dataset: str | None = None,
    key_file: str | os.PathLike[str] | None = None,
    sign_key: str | os.PathLike[str] | None = None,
    scratch: str | None = None,
    allow_unencrypted: bool = False,
    phase: Phase = lambda name, rows: None,  # noqa: ARG005
) -> Message:
    """Randomize the labels in a Spark frame and write them as a message for the features party.

    Given the same key, ids, labels and mechanism, the private labels and their order are the same as from
    `labeldp.privatize`. They do not depend on the partitioning or on repeated tasks.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        The records. It is evaluated three times and must give the same records each time, so save it first if it is
        expensive to compute.
    label : str
        The name of the label column: numbers, day-time intervals if the domain has a unit, or classes: text, booleans or numbers.
    id : str
        The name of the id column: integers or text. The message shows the ids unchanged.
    epsilon : float, str, Decimal or Fraction
        The total privacy budget of each label.
    domain : Domain or (lower, upper)
        The public bounds of the labels, never computed from them.
    out : str or Path
        The folder to write, which must not exist yet. The driver and, without `scratch`, all workers must see it.
    classes : sequence of str, optional
        Instead of `domain`, the public names of 2 to 20 classes, such as `["no", "yes"]`.
    loss, mechanism, prior, out_of_range
        As in `LabelRandomizer`.
    id_type : {"int", "str"}, optional
        Convert the ids to this type. By default the frame decides.
    person : str, optional
        The name of the column with the person of each record: integers or text. ε is then for all labels of a person
        together, and a few records of each person are chosen, the same as on one machine.
    ledger, dataset, key_file, sign_key
        As in `labeldp.privatize`. All four are files of the driver.
    scratch : str, optional
        A folder on a file system that driver and workers share, such as "hdfs:///tmp" or "s3a://bucket/tmp". Spark writes the
        parts there, and the driver fetches them. By default Spark writes them next to `out`.
    allow_unencrypted : bool, default False
        Run on a cluster that does not encrypt what Spark writes to disk or sends. See Privacy.
    phase : callable, optional
        For progress bars, as in `labeldp.privatize`.

    Returns
    -------
    Message
        The message, opened.

    Raises
    ------
    MissingExtra
        If pyspark is not installed or is too old.
    InvalidInput
        If the frame, a setting or a path cannot be used, or the frame gave other records when it was read again.
    PrivacyRefused
        If the frame belongs to a Spark Connect session, or the cluster does not encrypt.
    InsufficientBudget
        If the ledger has less than ε left for the dataset.
    LabelDPError
        If a job fails. The text states what was charged and how to continue.

    Warns
    -----
    ClippingWarning
        If more than 5 % of the labels lie outside the bounds.

    See Also
    --------
    labeldp.privatize : The same for a file, on one machine.

    Privacy
    -------
    ε-label-DP for replacing one label, charged before anything is drawn, as on one machine. Every draw is a function of
    key and record, so a task that Spark repeats releases nothing new. Workers get the subkeys of this release and of
    the input's fingerprint, inside the functions of the plan, never in a configuration or a log. Spark sends these
    functions in its own broadcasts and may keep them in temporary files, so on a cluster it must encrypt these files
    (`spark.io.encryption.enabled`) and its network traffic (`spark.network.crypto.enabled`).

    Examples
    --------
    >>> import labeldp.spark
    >>> frame = spark.read.parquet("sales.parquet")  # doctest: +SKIP
    >>> message = labeldp.spark.privatize(  # doctest: +SKIP
    ...     frame, label="amount", id="order", epsilon=1, domain=(0, 400), out="message", key_file="sales.key"
    ... )
    """
    if (domain is None) == (classes is None):
        raise InvalidInput("give either domain, the public bounds of the labels, or classes, their public names")
    bounds = Domain.of_classes(classes) if domain is None else domain  # type: ignore[arg-type] # one of the two is given
    randomizer = LabelRandomizer(epsilon, bounds, loss, mechanism, prior, out_of_range)
    labels = _input(frame, label, id, id_type, scratch, allow_unencrypted=allow_unencrypted, person=person)
    charged: dict[str, Any] = {"ledger": ledger, "dataset": dataset, "key_file": key_file, "sign_key": sign_key}
    outcome = _run(release_labels, labels, randomizer, out, phase=phase, **charged)
    return Message.open(outcome.message)


def apply(
    frame: DataFrame,
    message: str | os.PathLike[str] | Message,
    *,
    key_file: str | os.PathLike[str],
    ledger: Ledger | None = None,
    out_of_range: OutOfRange = "clip",
    id_type: str | None = None,
    sign_key: str | os.PathLike[str] | None = None,
    scratch: str | None = None,
    allow_unencrypted: bool = False,
    phase: Phase = lambda name, rows: None,  # noqa: ARG005
) -> Message:
    """Randomize the new records of a Spark frame and add them to a message, at no further cost.

    The message may have been written by either engine. The columns of the frame must have the names recorded in the message.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        The new records.
    message : str, Path or Message
        The message. Its folder must be one that driver and workers see.
    key_file, ledger, out_of_range, sign_key, phase
        As in `labeldp.apply`.
    id_type, scratch, allow_unencrypted
        As in `privatize`.

    Returns
    -------
    Message
        The message with the new batch, opened.

    Raises
    ------
    InvalidInput
        As in `labeldp.apply` and `privatize`.
    LabelDPError
        If a job fails. The error states whether the message was changed.

    Privacy
    -------
    As `labeldp.apply`: costs nothing more if each new id is a new label. A record whose id is in the message keeps its private
    label.

    Examples
    --------
    >>> import labeldp.spark
    >>> tuesday = spark.read.parquet("tuesday.parquet")  # doctest: +SKIP
    >>> message = labeldp.spark.apply(tuesday, "message", key_file="sales.key")  # doctest: +SKIP
    """
    if not isinstance(message, Message):
        expect_path(message, "message", "give the folder of the message")
    folder = message.path if isinstance(message, Message) else release_folder(message)
    # not opened, because a killed run may have left a batch that is not in the manifest yet
    _, header = read_description(folder / LABELS.description)
    person = None if header.persons is None else header.persons.column
    columns = (header.label_column, header.id_column)
    labels = _input(frame, *columns, id_type, scratch, allow_unencrypted=allow_unencrypted, person=person)
    charged: dict[str, Any] = {"ledger": ledger, "key_file": key_file, "sign_key": sign_key}
    outcome = _run(add_batch, folder, labels, out_of_range=out_of_range, phase=phase, **charged)
    return Message.open(outcome.message)


def matching_features(
    features: DataFrame,
    message: str | os.PathLike[str] | Message,
    *,
    id: str | None = None,  # noqa: A002
    rows: int | None = None,
) -> DataFrame:
    """Return the rows of a feature frame whose records are in a message, or a sample of them, for training.

    The ids are matched on the cluster. Save the result and give it to `labeldp train`, which joins the private labels.

    Parameters
    ----------
    features : pyspark.sql.DataFrame
        The features, with an id column.
    message : str, Path or Message
        The message. The workers must see its folder.
    id : str, optional
        The name of the id column in `features`. By default the name in the message.
    rows : int, optional
        The approximate number of records to keep. They are chosen by their ids, so the same records are chosen each time.

    Returns
    -------
    pyspark.sql.DataFrame
        The columns of `features` and no others.

    Raises
    ------
    InvalidInput
        If the id column is missing or its type is not that of the message's ids, or `rows` is not a positive whole number.

    Examples
    --------
    >>> import labeldp.spark
    >>> sample = labeldp.spark.matching_features(features, "message", rows=1_000_000)  # doctest: +SKIP
    >>> sample.write.parquet("sample.parquet")  # doctest: +SKIP
    """
    require_pyspark()
    from labeldp.engines.spark.frames import matching_rows

    if rows is not None and (isinstance(rows, bool) or not isinstance(rows, int) or rows < 1):
        raise InvalidInput(f"rows must be a positive whole number, got {described(rows)}")
    opened = message if isinstance(message, Message) else Message.open(message)
    return matching_rows(features, opened, opened.header.id_column if id is None else id, rows)


def sums(
    frame: DataFrame,
    *,
    label: str,
    cells: str | Sequence[str] | Mapping[str, int] = (),
    signs: str | Sequence[str] = (),
    epsilon: Epsilon,
    domain: Domain | tuple[float, float],
    clip: tuple[float, float] | None = None,
    out_of_range: OutOfRange = "clip",
    ledger: Ledger | None = None,
    dataset: str | None = None,
    allow_unencrypted: bool = False,
) -> PrivateSums:
    """Return noisy sums of the labels in a Spark frame over the cells of public columns, against public signs, or both.

    The release is the same as with `PrivateSums.over_cells` and `PrivateSums.against_signs` on one machine. Workers sum
    their labels exactly, in one pass, and the driver draws the noise once.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        The records, at least two.
    label : str
        The name of the label column: numbers, or day-time intervals if the domain has a unit.
    cells : str, list of str, or dict of str to int, optional
        The columns of cell numbers, integers from 0. Each column is its own partition. A dict gives the number of cells
        of each; otherwise it is the column's largest number plus one, which takes a pass over these columns.
    signs : str or list of str, optional
        The columns of +1 or −1, as integers.
    epsilon : float, str, Decimal or Fraction
        The total cost of all sums. Each column of cells gets one share, and all columns of signs together get an equal share.
    domain : Domain or (lower, upper)
        The public bounds of the labels, never computed from them.
    clip : tuple of (float, float), optional
        Clip labels to this narrower range first, for less noise. It must be public too.
    out_of_range : {"clip", "clip-all", "error"}, default "clip"
        How to handle labels outside the bounds, as in `LabelRandomizer`.
    ledger : Ledger, optional
        Charge ε to `dataset` in this ledger before anything is drawn. It is a file of the driver.
    dataset : str, optional
        The dataset in `ledger` to charge.
    allow_unencrypted : bool, default False
        Run on a cluster that does not encrypt what Spark writes to disk or sends. See Privacy.

    Returns
    -------
    PrivateSums
        With one answer against all columns of signs, then one over all columns of cells, if these were given.

    Raises
    ------
    MissingExtra
        If pyspark is not installed or is too old.
    InvalidInput
        If the frame, a column or a setting cannot be used. Nothing is charged then.
    PrivacyRefused
        If the frame belongs to a Spark Connect session, or the cluster does not encrypt.
    InsufficientBudget
        If the ledger has less than ε left for the dataset.
    LabelDPError
        If a job fails. Nothing is charged then.

    Warns
    -----
    ClippingWarning
        If more than 5 % of the labels lie outside the bounds.

    See Also
    --------
    labeldp.PrivateSums : The same for arrays, on one machine.

    Privacy
    -------
    ε-DP for replacing one label by another valid one. Cells and signs are public and must not depend on labels. Noise
    is drawn on the driver after all jobs have ended, so a task that Spark repeats releases nothing. Exact sums leave a
    worker encrypted, under a key that Spark sends to the workers, so on a cluster Spark must encrypt its disks
    (`spark.io.encryption.enabled`) and its network traffic (`spark.network.crypto.enabled`). Calling it again draws
    again and costs ε again.

    Examples
    --------
    >>> import labeldp.spark
    >>> frame = spark.read.parquet("sales.parquet")  # doctest: +SKIP
    >>> sums = labeldp.spark.sums(frame, label="amount", cells=["region"], epsilon=1, domain=(0, 400))  # doctest: +SKIP
    >>> sums.means()  # doctest: +SKIP
    """
    require_pyspark()
    from labeldp.engines.spark.spark_sums import SparkSums

    source = SparkSums.of(frame, label, cells, signs, allow_unencrypted=allow_unencrypted)
    charged: dict[str, Any] = {"ledger": ledger, "dataset": dataset}
    return _run(release_sums, source, epsilon, domain, clip=clip, out_of_range=out_of_range, **charged)


def score(
    frame: DataFrame,
    predictions: str | os.PathLike[str],
    *,
    label: str,
    id: str,  # noqa: A002
    epsilon: Epsilon,
    domain: Domain | tuple[float, float],
    out: str | os.PathLike[str],
    predictions_id: str | None = None,
    models: Sequence[str] | None = None,
    by: str | None = None,
    smallest_group: int = SMALLEST_GROUP,
    matching: bool = False,
    out_of_range: OutOfRange = "clip",
    id_type: str | None = None,
    ledger: Ledger | None = None,
    dataset: str | None = None,
    sign_key: str | os.PathLike[str] | None = None,
    allow_unencrypted: bool = False,
    phase: Phase = lambda name, rows: None,  # noqa: ARG005
) -> ScoreOutcome:
    """Answer predictions with their noisy error, for labels in a Spark frame.

    Figures, folder and cost are the same as with `labeldp.score` on one machine. The driver reads the predictions and sends them to the workers, which
    sum exactly; the driver draws the noise.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        The labels. It is evaluated three times, or five times with `by`, and must give the same records each time, so save it first if it is
        expensive to compute.
    predictions : str or Path
        The file of predictions by id, which the driver can read. They must fit into the memory of the driver and of each worker.
    label : str
        The name of the label column: numbers, or day-time intervals if the domain has a unit.
    id : str
        The name of the id column: integers or text.
    epsilon, domain, out, models, by, smallest_group, matching, out_of_range, ledger, dataset, sign_key, phase
        As in `labeldp.score`. Classes are not supported.
    predictions_id : str, optional
        The id column of the predictions. By default it has the same name as that of the frame.
    id_type : {"int", "str"}, optional
        Convert the ids of the frame to this type. By default the frame decides.
    allow_unencrypted : bool, default False
        Run on a cluster that does not encrypt what Spark writes to disk or sends. See Privacy.

    Returns
    -------
    ScoreOutcome

    Raises
    ------
    MissingExtra
        If pyspark is not installed or is too old.
    InvalidInput
        If labels, predictions, groups or settings are refused. Nothing is charged then.
    PrivacyRefused
        If the frame belongs to a Spark Connect session, or the cluster does not encrypt.
    InsufficientBudget
        If the ledger has less than ε left.
    LabelDPError
        If a job fails, or the frame gave other records when it was read again. The text states what was charged.

    Warns
    -----
    ClippingWarning
        If more than 5 % of the labels lie outside the bounds.

    See Also
    --------
    labeldp.score : The same for a file, on one machine.

    Privacy
    -------
    As `labeldp.score`. Labels are not shuffled. Exact sums leave a worker encrypted, as in `sums`, and noise is drawn on the driver.

    Examples
    --------
    >>> import labeldp.spark
    >>> frame = spark.read.parquet("sales.parquet")  # doctest: +SKIP
    >>> outcome = labeldp.spark.score(  # doctest: +SKIP
    ...     frame, "predictions.parquet", label="amount", id="order", epsilon=0.1, domain=(0, 400), out="score"
    ... )
    """
    labels = _input(frame, label, id, id_type, None, allow_unencrypted=allow_unencrypted)
    from labeldp.engines.spark.spark_sums import SparkLabels

    charged: dict[str, Any] = {"ledger": ledger, "dataset": dataset, "sign_key": sign_key}
    wanted: dict[str, Any] = {"models": models, "by": by, "smallest_group": smallest_group, "matching": matching}
    wanted |= {"id": id if predictions_id is None else predictions_id, "out_of_range": out_of_range, "phase": phase}
    return _run(score_labels, SparkLabels(labels), predictions, out, epsilon, domain, **wanted, **charged)


def _run(release: Callable[Given, Outcome], *arguments: Given.args, **options: Given.kwargs) -> Outcome:
    """Return what a release returns. Its errors contain none of Spark's own texts."""
    from labeldp.engines.spark.jobs import without_spark_texts

    with without_spark_texts():
        return release(*arguments, **options)


def _input(
    frame: DataFrame,
    label: str,
    ids: str,
    id_type: str | None,
    scratch: str | None,
    *,
    allow_unencrypted: bool,
    person: str | None = None,
) -> SparkInput:
    require_pyspark()
    from labeldp.engines.spark.spark_input import SparkInput

    return SparkInput(
        frame, label, ids, id_type, scratch=scratch, allow_unencrypted=allow_unencrypted, person_column=person
    )
