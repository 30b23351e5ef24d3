"""Part 3 of `make bench`: `labeldp privatize` on files, beside a plain copy and insecure equivalents in polars and DuckDB.

    python benchmarks/files.py [--quick] [--rows 100000,1000000] [--folder FOLDER] [--json FILE] [--plot FILE]

Files have unique ids in random order and labels with two decimals; the largest has the shape of the 1940 census: one row for
each of 130 million people, weeks worked from 0 to 52. Every program is a process of its own, start-up included, and all take turns:

- copy: pyarrow reads the two columns in batches and writes them to a Parquet file, at its defaults; ratios and targets refer to it;
- copy by row groups: the same in pieces of about a million rows, the fastest plain copy that we know;
- labeldp: `labeldp privatize --for labels`: checks, private prior, design, keyed randomness, refusal of repeated ids, order by id
  digest, message;
- polars, DuckDB: randomized response on fixed bins, the random word of a record being their hash of its id. That is no protection.
  Rows are ordered by a hash, as in a message, and repeated ids are refused, which the sorted file shows;
- "noise only": the same without these two, rows in the order of the input.

ReprMixin are rows per second and wall time over the copy's, the median of the rounds, and the peak of resident memory.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from bench.environments import PeerUnavailableError, python_of
from bench.part import finish, parser, say
from bench.results import Column, Contest, Result, Table, Target
from bench.timing import ratio

HERE = Path(__file__).resolve().parent
GIB = 1 << 30
CENSUS = 130_000_000
COPY, GROUPS, OURS, POLARS, DUCKDB = "copy", "copy by row groups", "labeldp", "polars", "DuckDB"
LIMITS = {"int": 1.7, "str": 2.2}
WHY = "A release reads its input before the charge and after it, and sorts by id on disk; the copy does neither."
KINDS = {"int": "integer ids", "str": "text ids"}


class ProgramFailedError(RuntimeError):
    """A program ended with an error, for want of memory, say."""


class DiskFullError(RuntimeError):
    """There is no room for a file."""


@dataclass(frozen=True)
class Case:
    """One file."""

    rows: int
    ids: str = "int"
    form: str = "parquet"
    weeks: bool = False

    def __str__(self) -> str:
        shape = ", census weeks" if self.weeks else ""
        return f"{self.rows:,} rows, {KINDS[self.ids]}, {'CSV' if self.form == 'csv' else 'Parquet'}{shape}"


@dataclass
class Runs:
    """What each program took in each round."""

    seconds: dict[str, list[float]] = field(default_factory=dict)
    processor: dict[str, list[float]] = field(default_factory=dict)
    memory: dict[str, int] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


def main() -> int:
    options = parser(__doc__)
    options.add_argument("--rows", help="sizes, with commas, instead of the usual ones")
    options.add_argument("--rounds", type=int, default=3, help="how often every program runs on each file")
    options.add_argument("--folder", type=Path, help="where to work, on a disk with 80 bytes for each row")
    given = options.parse_args()
    sizes = [int(size) for size in given.rows.split(",")] if given.rows else None
    return finish(given, lambda: measure(quick=given.quick, sizes=sizes, rounds=given.rounds, where=given.folder), draw)


def measure(
    *, quick: bool = False, sizes: list[int] | None = None, rounds: int = 3, where: Path | None = None
) -> Result:
    """All programs on all files."""
    command = "python benchmarks/files.py" + (" --quick" if quick else "")
    result = Result("files", "Releases of files beside a plain copy", command, quick=quick)
    programs = {COPY: None, GROUPS: None, OURS: None, POLARS: "same", f"{POLARS}, noise only": "noise"}
    try:
        duck: Path | None = python_of("duckdb")
        done = subprocess.run([str(duck), "-c", "import duckdb; print(duckdb.__version__)"], capture_output=True, text=True, check=True)  # fmt: skip
        result.peers["duckdb"] = f"duckdb {done.stdout.strip()}"
        programs |= {DUCKDB: "same", f"{DUCKDB}, noise only": "noise"}
    except PeerUnavailableError as error:
        duck, result.peers["duckdb"] = None, f"no figures: {error}"
    found = {}
    for case in cases(quick=quick, sizes=sizes):
        try:
            found[case] = one_case(case, programs, duck, 1 if quick else rounds, where)
        except DiskFullError as error:
            result.notes.append(f"Left out: {case}, because {error}.")
            continue
        ours = found[case]
        say(f"files: {case}: {ratio(ours.seconds[OURS], ours.seconds[COPY])} × the copy")
    tabulate(result, found)
    return result


def cases(*, quick: bool, sizes: list[int] | None) -> list[Case]:
    """The files, smallest first."""
    given = sizes or ([1_000, 100_000] if quick else [1_000, 100_000, 1_000_000, 20_000_000])
    forms = ("parquet", "csv")
    every = [Case(rows, ids, form) for rows in given for ids in KINDS for form in forms]
    if not sizes:  # the smallest file shows start-up, and one kind is enough for that
        every = [case for case in every if case.rows > 1_000 or (case.ids, case.form) == ("int", "parquet")]
    if quick or sizes:
        return every
    return [*every, Case(CENSUS, "int", "parquet", weeks=True)]


def one_case(case: Case, programs: dict, duck: Path | None, rounds: int, where: Path | None) -> Runs:
    """Make the file, then run every program on it, turn by turn."""
    runs = Runs()
    needed = case.rows * 80
    free = shutil.disk_usage(where or tempfile.gettempdir()).free
    if free < needed:
        raise DiskFullError(
            f"it needs {needed / GIB:.0f} GiB of disk, and {free / GIB:.0f} GiB are free (see --folder)"
        )
    folder = Path(tempfile.mkdtemp(prefix="labeldp-benchmark-", dir=where))
    try:
        data = folder / f"data.{case.form}"
        generator = [
            str(HERE / "files_input.py"),
            "generate",
            str(data),
            str(case.rows),
            case.ids,
            "weeks" if case.weeks else "sales",
        ]
        subprocess.run([sys.executable, *generator], check=True)
        for _ in range(rounds):
            for name, job in programs.items():
                out = folder / "out"
                command = command_of(name, job, case, data, out, duck)
                try:
                    seconds, processor, memory = measured(command)
                except ProgramFailedError as error:
                    if name in {COPY, GROUPS, OURS}:
                        raise
                    runs.failed[name] = str(error)
                    out.unlink(missing_ok=True)
                    continue
                runs.seconds.setdefault(name, []).append(seconds)
                runs.processor.setdefault(name, []).append(processor)
                runs.memory[name] = max(runs.memory.get(name, 0), memory)
                shutil.rmtree(out) if out.is_dir() else out.unlink()
        for name in runs.failed:
            runs.seconds.pop(name, None)
            runs.processor.pop(name, None)
            runs.memory.pop(name, None)
    finally:
        shutil.rmtree(folder)
    return runs


def command_of(name: str, job: str | None, case: Case, data: Path, out: Path, duck: Path | None) -> list[str]:
    """What runs one program."""
    if name == COPY:
        return [sys.executable, str(HERE / "files_input.py"), "copy", str(data), str(out)]
    if name == GROUPS:
        return [sys.executable, str(HERE / "files_input.py"), "copy-groups", str(data), str(out)]
    if name == OURS:
        program = [sys.executable, "-c", "from labeldp.cli import main; main()", "privatize", str(data), "--quiet"]
        bounds = ["--integers", "0:52"] if case.weeks else ["--lower", "0", "--upper", "400"]
        return [
            *program,
            "--label",
            "label",
            "--id",
            "id",
            "--epsilon",
            "1",
            *bounds,
            "--for",
            "labels",
            "--out",
            str(out),
        ]
    python = sys.executable if name.startswith(POLARS) else str(duck)
    script = "polars_files.py" if name.startswith(POLARS) else "duckdb_files.py"
    return [python, str(HERE / "peers" / script), str(data), str(out), str(job)]


def measured(command: list[str]) -> tuple[float, float, int]:
    """Seconds, processor seconds and peak resident bytes of one process. This one stays small, since a child starts with its memory."""
    start = time.perf_counter()
    child = subprocess.Popen(command)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise ProgramFailedError(f"exit code {child.returncode}")
    return time.perf_counter() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def tabulate(result: Result, found: dict[Case, Runs]) -> None:
    """One table of ratios, one of memory, targets and contests."""
    names = list(next(iter(found.values())).seconds)
    others = [name for name in names if name != COPY]
    times = Table(
        "times",
        "Wall time over that of the copy in the same round (medians), and rows per second of ours.",
        [
            Column("case", "file"),
            Column("rate", "labeldp, rows per second", ",.0f"),
            Column("copy", "copy, s", ".2f"),
            *(Column(name, f"{name}, × copy", ".2f") for name in others),
            Column("spread", "labeldp, least to largest"),
            Column("rounds", "rounds", "d"),
            Column("processor", "labeldp, processor time × copy", ".2f"),
        ],
    )
    memory = Table(
        "memory",
        "Peak resident memory in GiB.",
        [Column("case", "file"), *(Column(name, name, ".2f") for name in names)],
    )
    for case, runs in found.items():
        ours = ratio(runs.seconds[OURS], runs.seconds[COPY])
        times.add(
            case=str(case),
            rate=case.rows / statistics.median(runs.seconds[OURS]),
            copy=statistics.median(runs.seconds[COPY]),
            spread=f"{ours.low:.2f} to {ours.high:.2f}",
            rounds=len(runs.seconds[OURS]),
            processor=ratio(runs.processor[OURS], runs.processor[COPY]).median,
            **{name: ratio(runs.seconds[name], runs.seconds[COPY]).median for name in others if name in runs.seconds},
        )
        memory.add(case=str(case), **{name: size / GIB for name, size in runs.memory.items()})
        result.notes += [f"{name} failed on {case}: {why}." for name, why in runs.failed.items()]
        for what, tail in (("same job", ""), ("noise only", ", noise only")):
            seconds = statistics.median(runs.seconds[OURS])
            peers = {
                name: seconds * ratio(runs.seconds[name], runs.seconds[OURS]).median
                for name in others
                if name not in {GROUPS, OURS} and name in runs.seconds and name.endswith(", noise only") == bool(tail)
            }
            result.contests.append(Contest(f"{case}, {what}", "low", {OURS: seconds}, peers, "seconds"))
        peers = {name: size / GIB for name, size in runs.memory.items() if name not in {OURS, COPY, GROUPS}}
        result.contests.append(Contest(f"{case}, memory", "low", {OURS: runs.memory[OURS] / GIB}, peers, "GiB"))
    result.tables += [times, memory]
    result.notes.append(on_the_largest(found))
    for ids, limit in LIMITS.items():
        large = [case for case in found if (case.ids, case.form, case.weeks) == (ids, "parquet", False)]
        largest = max(large, key=lambda case: case.rows, default=None)
        if largest is not None and largest.rows >= 10**7:
            runs = found[largest]
            reached = ratio(runs.seconds[OURS], runs.seconds[COPY]).median
            result.targets.append(Target(f"time over the copy's, {largest}", limit, reached, "×", why=WHY))
    peak = max(runs.memory[OURS] for runs in found.values()) / GIB
    result.targets.append(Target("peak memory at any size", 1, peak, " GiB"))
    result.plot = {
        name: [
            [case.rows, runs.memory[name] / GIB]
            for case, runs in found.items()
            if (case.ids, case.form) == ("int", "parquet") and name in runs.memory
        ]
        for name in names
        if not name.endswith("noise only")
    }


def on_the_largest(found: dict[Case, Runs]) -> str:
    """How we stand beside those who do the same job, on the file with the most rows."""
    case, runs = max(found.items(), key=lambda pair: pair[0].rows)
    beside = [
        f"{name} takes {ratio(runs.seconds[name], runs.seconds[OURS]).median:.2f} times as long as labeldp and "
        f"{runs.memory[name] / runs.memory[OURS]:.1f} times the memory"
        for name in (POLARS, DUCKDB)
        if name in runs.seconds
    ]
    copied = ratio(runs.seconds[OURS], runs.seconds[GROUPS]).median
    return (
        f"On the largest file ({case}), labeldp takes {copied:.2f} times as long as the copy by row groups. For the same job, "
        f"{'; '.join(beside) or 'no peer ran'}."
    )


def draw(result: Result, path: Path) -> None:
    """Peak memory against rows."""
    from bench.pictures import lines

    lines(result.plot, path, title="Peak memory, integer ids, Parquet", xlabel="rows (log scale)", ylabel="GiB")


if __name__ == "__main__":
    raise SystemExit(main())
