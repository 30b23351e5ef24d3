"""Options that choose the engine: Arrow on this machine, or Apache Spark. Commands do not distinguish them otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from labeldp.cli.console import note
from labeldp.cli.options import TextFiles
from labeldp.errors import InvalidInput

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from labeldp.engines.arrow.source import LabelSource
    from labeldp.engines.passes import LabelInput, MatchedInput
    from labeldp.engines.spark.spark_input import SparkInput
    from labeldp.tables.files import Phase

SparkOption = partial(typer.Option, rich_help_panel="Spark")


@dataclass(frozen=True)
class Labels:
    """The input as the command line names it.

    Attributes
    ----------
    source : str
        A path, or a URI for Spark.
    label, ids : str
        The columns. Only Arrow can do without ids.
    text : TextFiles
        How text files are read.
    person : str, optional
        The column of persons, if a person is the unit of privacy.
    classes : bool, default False
        Whether labels are classes, which Spark reads from text files as text.
    """

    source: str
    label: str
    ids: str | None
    text: TextFiles
    person: str | None = None
    classes: bool = False

    def file(self) -> LabelSource:
        """Return the input for Arrow."""
        return self.text.source(self.source, self.label, self.ids, self.person)


@dataclass(frozen=True)
class EngineOptions:
    """`--engine`, and the settings of Spark: `--spark-conf` and `--conf`."""

    engine: Annotated[
        Literal["arrow", "spark"],
        SparkOption(
            "--engine", help="arrow reads files on this machine; spark reads any place that Apache Spark knows."
        ),
    ] = "arrow"
    spark_conf: Annotated[
        Path | None,
        SparkOption(
            "--spark-conf",
            metavar="FILE",
            help="Settings of Spark, as in spark-defaults.conf. spark.master is where it runs: local[*] (the default), yarn, k8s://….",
        ),
    ] = None
    conf: Annotated[
        list[str] | None,
        SparkOption(
            "--conf",
            metavar="K=V",
            help="A setting of Spark, as spark.master=yarn. May be repeated; overrides the file.",
        ),
    ] = None

    def check(self, labels: Labels, *, keep_order: bool = False) -> None:
        """Raise `InvalidInput` for options that the engine does not have, before anything is started or read."""
        if self.engine == "arrow":
            self._check_arrow(labels)
            return
        if labels.ids is None:
            raise InvalidInput(
                "--engine spark needs --id COL: rows on a cluster have no numbers that could be their ids"
            )
        if keep_order:
            raise InvalidInput(
                "--keep-order does not go with --engine spark: rows on a cluster have no order to keep. Leave it out"
            )
        if labels.text.decimal != ".":
            raise InvalidInput(
                "--decimal , is not possible with --engine spark: write decimals with a point, or use Arrow"
            )

    @contextmanager
    def reads(self, labels: Labels, phase: Phase) -> Iterator[LabelInput]:
        """Give the input, open while the block runs."""
        if self.engine == "spark":
            with self._on_spark(labels, phase) as found:
                yield found
            return
        from labeldp.engines.arrow.arrow_input import ArrowInput

        yield ArrowInput(labels.file())

    @contextmanager
    def joins(self, labels: Labels, phase: Phase) -> Iterator[LabelSource | MatchedInput]:
        """Give the input for a join by id, open while the block runs."""
        if self.engine == "arrow":
            yield labels.file()
            return
        with self._on_spark(labels, phase) as found:
            from labeldp.engines.spark.spark_labels import SparkLabels

            yield SparkLabels(found)

    def count(self, labels: Labels, phase: Phase) -> tuple[int, NDArray[np.int64] | None]:
        """Return the number of records, and that of persons by their number of rows if there is a column of persons. Reads no label."""
        if self.engine == "spark":
            with self._on_spark(labels, phase) as found:
                return found.row_count() or 0, found.count_persons()
        from labeldp.engines.arrow.person_spill import count_persons
        from labeldp.engines.arrow.source import count_rows

        file = labels.file()
        return count_rows(file), None if labels.person is None else count_persons(file)

    def _check_arrow(self, labels: Labels) -> None:
        given = {"--spark-conf": self.spark_conf is not None, "--conf": bool(self.conf)}
        if names := [name for name, is_given in given.items() if is_given]:
            raise InvalidInput(
                f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'} for Spark: give --engine spark too"
            )
        if "://" in labels.source:
            raise InvalidInput(
                f"{labels.source} is not a file of this machine: give --engine spark to read it with Spark"
            )

    @contextmanager
    def _on_spark(self, labels: Labels, phase: Phase) -> Iterator[SparkInput]:
        from labeldp.engines.spark import require_pyspark

        require_pyspark()
        from labeldp.engines.spark.frames import read_records
        from labeldp.engines.spark.session import (
            ALLOW_UNENCRYPTED,
            SCRATCH,
            THIS_MACHINE,
            is_local,
            is_on,
            parsed_settings,
            running,
        )
        from labeldp.engines.spark.spark_input import SparkInput

        assert labels.ids is not None, "checked before"
        settings = parsed_settings(self.spark_conf, self.conf or ())
        scratch, unencrypted = settings.pop(SCRATCH, None), is_on(settings.pop(ALLOW_UNENCRYPTED, None))
        here = "://" not in labels.source and is_local(settings.get("spark.master", THIS_MACHINE))
        if here and not Path(labels.source).exists():  # before Spark takes its seconds to start
            raise InvalidInput(f"there is no file {labels.source}: check the path")
        phase("starting", None)
        with running(settings, kept=_note_log) as spark:
            frame, id_type = read_records(
                spark,
                labels.source,
                labels.label,
                labels.ids,
                labels.text.id_type,
                labels.text.delimiter,
                labels.person,
                classes=labels.classes,
            )
            yield SparkInput(
                frame,
                labels.label,
                labels.ids,
                id_type,
                scratch=scratch,
                allow_unencrypted=unencrypted,
                person_column=labels.person,
            )


def _note_log(log: Path) -> None:
    note(f"Spark's log is in {log}")
