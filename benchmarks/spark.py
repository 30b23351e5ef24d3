"""A release on Spark beside what Spark itself needs for the same rows. Run: python benchmarks/spark.py

Ids in random order and labels with two decimals are generated on disk, once with integer ids and once with text. One local Spark
session of two cores does everything. What is compared runs turn by turn. Medians of the time and of the processor time of driver,
Java and workers are shown, because other programs on the machine blur the first; a promise is kept if both keep it. ReprMixin are

- pass two's map, which draws, beside a `mapInArrow` that returns what it gets (at most 1.5 times its time), both into Spark's noop sink;
- `labeldp.spark.privatize` with a key file beside reading, sorting by id and writing the table (at most 3 times its time);
- how long the parts of a release take, what is shuffled, and the peak memory of driver, Java and workers;
- whether Spark's message has the codes, the order of rows and the totals of one machine's, for each number of partitions;
- with --scaling, the time per row for 10⁶, 10⁷ and, with --full, 10⁸ rows.

The exit code is 1 if a promise is not kept.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1] / "tests/engines/spark"))

from pyspark.sql import DataFrame, SparkSession
from spark_session import local_session

import labeldp.spark
from files_input import generate
from labeldp import ClippingWarning, Domain, LabelRandomizer, LabelSource, Message
from labeldp.artifact.description import describe, privacy_card_text
from labeldp.artifact.labels_file import LabelsFile
from labeldp.artifact.manifest import seal
from labeldp.engines.arrow.arrow_input import ArrowInput
from labeldp.engines.passes import LabelInput
from labeldp.engines.spark.spark_input import SparkInput
from labeldp.engines.spark.worker import RecordReader
from labeldp.engines.spark.writing import Draw, message_rows, packed_rows
from labeldp.release.key_file import KeyFile
from labeldp.release.labels import privatize
from labeldp.release_kind import LABELS
from labeldp.sampling import KeyedRandomness
from labeldp.sampling.multiset import MultisetHash
from spark_processes import Peaks, processor_seconds

MOST_MAP, MOST_RELEASE = 1.5, 3.0
BOUNDS = (0, 400)
WARM_UP_ROWS = 50_000
SCALES = (10**6, 10**7)
FULL_SCALE = 10**8
Job = Callable[[], object]
Seconds = tuple[float, float]
"""Of the clock, and of all processors together."""


def main() -> int:
    options = parsed()
    folder = Path(tempfile.mkdtemp(prefix="labeldp-benchmark-", dir=options.folder))
    kinds = ("int", "str") if options.ids == "both" else (options.ids,)
    spark = local_session(folder, spark_driver_memory=options.driver_memory)
    try:
        warnings.simplefilter("ignore", ClippingWarning)
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        if options.scaling:
            for kind in kinds:
                scaling(spark, folder, kind, (*SCALES, FULL_SCALE) if options.full else SCALES, options.rounds)
            return 0
        kept = [measured(spark, folder, kind, options) for kind in kinds]
        return 0 if all(kept) else 1
    finally:
        spark.stop()
        shutil.rmtree(folder)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--ids", choices=("int", "str", "both"), default="both")
    parser.add_argument("--rounds", type=int, default=3, help="how often all that is compared is run, turn by turn")
    parser.add_argument(
        "--partitions", type=int, nargs="*", default=(1, 7, 64), help="compare the messages for each of these numbers"
    )
    parser.add_argument("--folder", type=Path, help="where to work, on a disk with 250 bytes per row free")
    parser.add_argument("--driver-memory", default="4g")
    parser.add_argument(
        "--scaling", action="store_true", help="show the time per row for growing numbers of rows instead"
    )
    parser.add_argument("--full", action="store_true", help="with --scaling, go on to 100 million rows")
    return parser.parse_args()


def measured(spark: SparkSession, folder: Path, kind: str, options: argparse.Namespace) -> bool:
    """Prints all figures for ids of one kind; says whether the promises are kept."""
    case = Case.made(spark, folder / kind, kind, options.rows)
    print(
        f"{options.rows:,} rows, {kind} ids, {case.frame.rdd.getNumPartitions()} partitions, the median of {options.rounds}"
    )
    try:
        message = case.release("first")
        kept = [
            map_beside_identity(case, message, options.rounds),
            release_beside_sort(case, options.rounds),
        ]
        parts_of_a_release(case)
        parts_of_pass_two(case, message, options.rounds)
        kept += identical(case, message, options.partitions)
        return all(kept)
    finally:
        shutil.rmtree(case.folder)


@dataclass(frozen=True)
class Case:
    """A table on disk, and what is done with it."""

    spark: SparkSession
    folder: Path
    kind: str
    rows: int

    @classmethod
    def made(cls, spark: SparkSession, folder: Path, kind: str, rows: int) -> Case:
        """Generates the table, and lets the workers compile and import on a small one."""
        folder.mkdir()
        small = cls(spark, folder / "small", kind, WARM_UP_ROWS)
        small.folder.mkdir()
        case = cls(spark, folder, kind, rows)
        for each in (small, case):
            generate(each.data, each.rows, kind, "sales")
        small.sort()
        small.release("message")
        shutil.rmtree(small.folder)
        return case

    @property
    def data(self) -> Path:
        return self.folder / "data.parquet"

    @property
    def frame(self) -> DataFrame:
        return self.spark.read.parquet(str(self.data))

    @property
    def key_file(self) -> Path:
        return self.folder / "key"

    def release(self, name: str) -> Message:
        """A whole release."""
        return labeldp.spark.privatize(
            self.frame, label="label", id="id", epsilon=1, domain=BOUNDS, out=self.folder / name, key_file=self.key_file
        )

    def sort(self) -> None:
        """What is done without privacy."""
        target = self.folder / "sorted"
        self.frame.orderBy("id").write.parquet(str(target))
        shutil.rmtree(target)

    def draw(self, message: Message) -> Draw:
        """What pass two's workers get, under keys of its own."""
        randomness = KeyedRandomness.generate().bound(message.mechanism.digest_bytes)
        reader = RecordReader(self.kind, None)
        return Draw(reader, message.mechanism, Domain(*BOUNDS), randomness, MultisetHash.subkeys(os.urandom(32)))


def map_beside_identity(case: Case, message: Message, rounds: int) -> bool:
    records, draw, bits = case.frame, case.draw(message), part_bits_of(message)
    with broadcast(case.spark, message.mechanism) as mechanism:
        jobs = {
            "identity": lambda: to_nowhere(records.mapInArrow(lambda batches: batches, records.schema)),
            "draw": lambda: to_nowhere(packed_rows(records, draw, mechanism, bits)),
        }
        return compared("pass two's map", turn_by_turn(jobs, rounds), MOST_MAP)


def release_beside_sort(case: Case, rounds: int) -> bool:
    def release() -> None:
        shutil.rmtree(case.release("message").path)

    return compared("the whole", turn_by_turn({"sort": case.sort, "release": release}, rounds), MOST_RELEASE)


def compared(what: str, times: dict[str, list[Seconds]], limit: float) -> bool:
    """Prints the medians of two jobs, and those of the ratios of their rounds."""
    (plain, before), (ours, after) = times.items()
    wall, processor = (
        [second[which] / first[which] for first, second in zip(before, after, strict=True)] for which in (0, 1)
    )
    kept = max(median(wall), median(processor)) <= limit
    print(
        f"  {what:15} {plain} {shown(before)}   {ours} {shown(after)}   ratio {median(wall):5.2f} {median(processor):5.2f} CPU   at most "
        f"{limit:g}: {'kept' if kept else 'NOT KEPT'}",
        flush=True,
    )
    return kept


def shown(runs: list[Seconds]) -> str:
    wall, processor = (median(run[which] for run in runs) for which in (0, 1))
    return f"{wall:6.2f} s {processor:6.2f} s CPU"


def parts_of_a_release(case: Case) -> None:
    """Prints when each step of one release ended, and the memory."""
    labels = Timed(case.frame, "label", "id")
    with Peaks(os.getpid()) as peaks:
        start = time.perf_counter()
        outcome = privatize(labels, LabelRandomizer(1, BOUNDS), case.folder / "message", key_file=case.key_file)
        labels.marks["publish"] = time.perf_counter()
        Message.open(outcome.message)
        labels.marks["open"] = time.perf_counter()
    shutil.rmtree(outcome.message)
    steps = [
        f"{name} {end - begin:.2f}"
        for (name, end), begin in zip(labels.marks.items(), [start, *labels.marks.values()], strict=False)
    ]
    print(f"  parts, s        {'   '.join(steps)}")
    print(f"  peak memory     {peaks}", flush=True)


class Timed(SparkInput):
    """Notes when each step ended."""

    @property
    def marks(self) -> dict[str, float]:
        return self.__dict__.setdefault("_marks", {})

    def in_unit(self, domain: Domain) -> Timed:
        super().in_unit(domain)
        return self

    def row_count(self):
        return self._noted("count", super().row_count)

    def scan(self, *arguments, **options):
        return self._noted("pass one", lambda: super(Timed, self).scan(*arguments, **options))

    def randomize(self, *arguments, **options):
        self.marks["design"] = time.perf_counter()
        return self._noted("pass two", lambda: super(Timed, self).randomize(*arguments, **options))

    def _noted(self, name: str, step: Callable[[], object]):
        found = step()
        self.marks[name] = time.perf_counter()
        return found


def parts_of_pass_two(case: Case, message: Message, rounds: int) -> None:
    """Prints what each step of pass two adds to the time of those before it, and what is shuffled."""
    spark, draw = case.spark, case.draw(message)
    bits = part_bits_of(message)
    with broadcast(spark, message.mechanism) as mechanism:
        drawn = packed_rows(case.frame, draw, mechanism, bits)
        placed = drawn.repartitionById((1 << bits) + 1, "part")
        final = message_rows(case.frame, draw, mechanism, "id", bits, None)
        target = case.folder / "written"

        def write() -> None:
            final.write.parquet(str(target))
            shutil.rmtree(target)

        steps = {
            "read": lambda: to_nowhere(case.frame),
            "map": lambda: to_nowhere(drawn),
            "shuffle": lambda: to_nowhere(placed),
            "sort and check": lambda: to_nowhere(final),
            "write": write,
        }
        times = {name: median(cpu for _, cpu in runs) for name, runs in turn_by_turn(steps, rounds).items()}
        spark.sparkContext.setJobGroup("shuffled", "shuffled")
        to_nowhere(placed)
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)
    added = [
        f"{name} {end - begin:.2f}" for (name, end), begin in zip(times.items(), [0.0, *times.values()], strict=False)
    ]
    print(f"  pass two, s CPU {'   '.join(added)}")
    print(
        f"  shuffled        {shuffled_bytes(spark, 'shuffled') / case.rows:.1f} bytes per row in {(1 << bits) + 1} parts",
        flush=True,
    )


def part_bits_of(message: Message) -> int:
    """How many bits of a key chose the part of a record."""
    return len(message.files).bit_length() - 1


def shuffled_bytes(spark: SparkSession, group: str) -> int:
    """What the jobs of a group wrote to shuffle files."""
    context = spark.sparkContext
    tracker, store = context.statusTracker(), context._jsc.sc().statusStore()  # noqa: SLF001 - with no other way
    stages = {stage for job in tracker.getJobIdsForGroup(group) for stage in tracker.getJobInfo(job).stageIds}
    return sum(store.lastStageAttempt(stage).shuffleWriteBytes() for stage in stages)


def identical(case: Case, message: Message, partitions: tuple[int, ...]) -> list[bool]:
    """Whether the messages are the same as one machine's under the same key, release and mechanism."""
    if not partitions:
        return []
    source = ArrowInput(LabelSource(case.data, "label", "id"))
    expected = again(case, message, source, "one-machine")
    table, same = expected.to_arrow(), []
    for count in partitions:
        found = again(case, message, SparkInput(case.frame.repartition(count), "label", "id"), "message")
        difference = first_difference(found, expected, table)
        print(f"  {count:3} partitions  {difference or 'identical'}", flush=True)
        same.append(not difference)
        shutil.rmtree(found.path)
    return same


def again(case: Case, message: Message, labels: LabelInput, name: str) -> Message:
    """What an engine makes of the table under the key, the release and the mechanism of a message."""
    with KeyFile.use(case.key_file) as keys:
        key = keys.key
    domain, work = Domain(*BOUNDS), case.folder / "work"
    labels = labels.in_unit(domain)
    work.mkdir()
    folder, mechanism, header = case.folder / name, message.mechanism, message.header
    folder.mkdir()
    labels.randomize(
        mechanism,
        domain,
        labels.scan(domain, key=key, out_of_range="clip-all"),
        key=key,
        release=bytes.fromhex(header.release),
        advice="",
        labels=LABELS.batch_path(folder, 0),
        work=work,
    )
    papers = describe(mechanism, header), privacy_card_text(mechanism, header)
    seal(
        folder,
        LABELS,
        header.release,
        message.epsilon_exact,
        papers,
        lambda path: LabelsFile(path, header, mechanism).count_written(),
    )
    shutil.rmtree(work)
    return Message.open(case.folder / name)


def first_difference(found: Message, expected: Message, table) -> str:
    """Where two messages differ in their totals, the order of their rows, or their codes; empty if nowhere."""
    for name in ("release", "records", "epsilon_total"):
        if getattr(found.manifest, name) != getattr(expected.manifest, name):
            return f"the manifests have another {name}"
    held = found.to_arrow()
    for name in table.column_names:
        if held[name].type != table[name].type:
            return f"{name} is {held[name].type} and not {table[name].type}"
        if not held[name].equals(table[name]):
            return f"{name} differs"
    return ""


def scaling(spark: SparkSession, folder: Path, kind: str, scales: tuple[int, ...], rounds: int) -> None:
    """Prints the time of a release per row for growing numbers of rows."""
    print(f"{kind} ids, the median of {rounds}; of one at {FULL_SCALE:,} rows")
    for rows in scales:
        case = Case.made(spark, folder / kind, kind, rows)

        def release(case: Case = case) -> None:
            shutil.rmtree(case.release("message").path)

        with Peaks(os.getpid()) as peaks:
            times = turn_by_turn({"sort": case.sort, "release": release}, 1 if rows == FULL_SCALE else rounds)
        (sort, _), (whole, processor) = (map(median, zip(*times[name], strict=True)) for name in ("sort", "release"))
        print(
            f"  {rows:>11,} rows  release {whole:7.1f} s {processor:7.1f} s CPU {processor / rows * 1e9:6.0f} ns CPU a row   sort "
            f"{sort:7.1f} s   ratio {whole / sort:.2f}   {peaks}",
            flush=True,
        )
        shutil.rmtree(case.folder)


def turn_by_turn(jobs: dict[str, Job], rounds: int) -> dict[str, list[Seconds]]:
    """What each job took in each round."""
    times: dict[str, list[Seconds]] = {name: [] for name in jobs}
    for _ in range(rounds):
        for name, job in jobs.items():
            start, used = time.perf_counter(), processor_seconds(os.getpid())
            job()
            times[name].append((time.perf_counter() - start, processor_seconds(os.getpid()) - used))
    return times


def to_nowhere(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


@contextmanager
def broadcast(spark: SparkSession, mechanism) -> Iterator:
    sent = spark.sparkContext.broadcast(mechanism)
    try:
        yield sent
    finally:
        sent.destroy()


if __name__ == "__main__":
    sys.exit(main())
