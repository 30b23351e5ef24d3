"""Corrupts good files and gives them to every reader, to see that none of them does anything but read or refuse.

    python benchmarks/fuzz.py --executions 1000000 --jobs 2     # about an hour
    python benchmarks/fuzz.py --seconds 60 --readers labels,message
    python benchmarks/fuzz.py --replay fuzz-findings/123-labels

One execution corrupts one file of a good set (`fuzz_mutations.py`) and runs one reader on it (`fuzz_readers.py`). Afterwards it must
hold that

- the reader returned or raised `LabelDPError`, with no other exception and no warning but labeldp's own;
- it took less than 10 seconds and less than 4 GiB of memory beyond what the process had;
- nothing half-written is left: no hidden file, no message that does not open;
- no digit of a label is in the error (with its causes), the warnings, what was printed, or any file that was written. All labels
  are rare nine-digit numbers, which are searched for as text and as bytes.

Executions run in worker processes. If one dies, its input is kept and another goes on. A finding is kept as a folder with the files
and the reader's words, once per place in the code. Execution number n with seed s always corrupts in the same way.
"""

import argparse
import contextlib
import io
import json
import mmap
import os
import re
import resource
import selectors
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

MEMORY = 4 << 30
SECONDS = 10
SILENT_SECONDS = 40
"""A worker that begins nothing new for so long hangs in compiled code, where no alarm reaches it."""
STARTING_SECONDS = 300
KEPT_PER_PLACE = 3
SEALED = 0.75
"""The share of executions in which the digests around a corruption are made right again, as an attacker would."""
STATE = struct.Struct("<qd32s")
"""What a worker is at: the number of its execution, when that began, and its reader."""


class TookTooLong(BaseException):
    """The alarm of an execution."""


@dataclass
class Outcome:
    """What came of one execution: "ok", "refused" or "violation", and for the last one why and where."""

    kind: str
    why: str = ""
    place: str = ""


@dataclass
class Totals:
    """Counts by reader."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    places: Counter[str] = field(default_factory=Counter)

    def show(self, seconds: float) -> None:
        """Print the table."""
        readers = sorted({reader for reader, _ in self.counts})
        print(f"{'reader':<16}{'executions':>12}{'ok':>10}{'refused':>10}{'violations':>12}")
        sums = Counter[str]()
        for reader in readers:
            found = [self.counts[reader, kind] for kind in ("ok", "refused", "violation")]
            sums.update(dict(zip(("ok", "refused", "violation"), found, strict=True)))
            print(f"{reader:<16}{sum(found):>12,}{found[0]:>10,}{found[1]:>10,}{found[2]:>12,}")
        total = sums.total()
        print(f"{'all':<16}{total:>12,}{sums['ok']:>10,}{sums['refused']:>10,}{sums['violation']:>12,}")
        print(f"{total / max(seconds, 1e-9):,.0f} executions a second in {seconds:,.0f} s")
        for place, times in self.places.most_common():
            print(f"{times:>7,} × {place}")


# ---------------------------------------------------------------------------------------------- one execution


class Fuzzer:
    """Readers with their good files, and a folder to run them in."""

    def __init__(self, names: list[str], scratch: Path) -> None:
        import fuzz_mutations
        import fuzz_readers

        self._mutations, self._files = fuzz_mutations, fuzz_readers
        chosen = [kind for kind in fuzz_readers.READERS if not names or kind.name in names]
        self.readers = [kind() for kind in chosen]
        self._weights = [reader.weight for reader in self.readers]
        self._folder = scratch / "execution"
        self._others = [content for reader in self.readers for scene in reader.scenes[:2] for content in scene.values()]
        self._text, self._bytes = _needles(fuzz_readers)

    def check_good_files(self) -> None:
        """Every reader takes its good files; otherwise the fuzzing would show nothing."""
        for reader in self.readers:
            for number, scene in enumerate(reader.scenes):
                outcome = self.run(reader, scene, show=number == 0)
                needed = number == 0 or reader.takes_all
                if outcome.kind == "violation" or (needed and outcome.kind != "ok"):
                    raise SystemExit(f"{reader.name} does not take its good files: {outcome.kind} {outcome.why}")

    def corrupted(self, seed: int, number: int) -> tuple[Any, dict[str, bytes]]:
        """The reader and the files of an execution."""
        random = Random(f"{seed} {number}")
        (reader,) = random.choices(self.readers, self._weights)
        scene = random.choice(reader.scenes)
        target = random.choice(reader.targets(scene))
        corrupted = scene | {target: self._mutations.mutated(random, scene[target], target, self._others)}
        return reader, reader.sealed(corrupted, target) if random.random() < SEALED else corrupted

    def run(self, reader: Any, scene: dict[str, bytes], *, show: bool = False) -> Outcome:
        """Run a reader on files, and judge what it did."""
        self._files.fresh(self._folder, scene)
        printed, raised = io.StringIO(), None
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            shown = warnings.showwarning
            try:
                with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed), alarm(SECONDS):
                    reader.run(self._folder)
            except BaseException as error:  # noqa: BLE001 - that is the question
                raised = error
            finally:
                warnings.showwarning = shown
        if show and raised is not None:
            traceback.print_exception(raised)
        try:
            return self._judged(reader, scene, raised, warned, printed.getvalue())
        finally:
            raised = None

    def _judged(
        self, reader: Any, scene: dict[str, bytes], raised: BaseException | None, warned: list[Any], printed: str
    ) -> Outcome:
        from labeldp.errors import LabelDPError

        if raised is not None and not isinstance(raised, LabelDPError):
            return Outcome("violation", "".join(traceback.format_exception(raised)), _place(reader, raised))
        for warning in warned:
            if not reader.may_warn and not _is_ours(warning.category):
                words = f"{warning.category.__name__}: {warning.message} ({warning.filename}:{warning.lineno})"
                return Outcome("violation", words, f"{reader.name}: {words[:150]}")
        said = [printed, *(str(warning.message) for warning in warned), *_chain(raised)]
        for text in said:
            if self._text.search(text):
                return Outcome(
                    "violation",
                    f"a label is in: {text[:2000]}",
                    f"{reader.name}: label said by {_place(reader, raised)}",
                )
        for name, content in self._files.content_of(self._folder).items():
            given = scene.get(name, b"")
            if given == content or not self._bytes.search(content):
                continue
            # A corruption may move a label into the id column, and ids are published as they are.
            if not self._bytes.search(given) and not self._bytes.search(self._files.published_ids(self._folder)):
                return Outcome("violation", f"a label is in the file {name}", f"{reader.name}: label in a file")
        for words in reader.leftovers(self._folder):
            return Outcome("violation", words, f"{reader.name}: {words[:120]}")
        return Outcome("ok" if raised is None else "refused")


@contextlib.contextmanager
def alarm(seconds: float) -> Iterator[None]:
    """Raise `TookTooLong` in the block after so many seconds."""

    def ring(*_: object) -> None:
        raise TookTooLong(f"more than {seconds} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _needles(readers: Any) -> tuple[re.Pattern[str], re.Pattern[bytes]]:
    """What labels look like in texts (seven of their digits in a row, or an exponent), and in files."""
    text = {marker[start : start + 7] for marker in readers.MARKERS for start in range(3)}
    text |= {f"{marker[0]}.{marker[1:6]}" for marker in readers.MARKERS}
    content = {re.escape(marker.encode()) for marker in readers.MARKERS}
    content |= {re.escape(struct.pack(form, label)) for form in ("<d", ">d") for label in readers.LABELS}
    return re.compile("|".join(map(re.escape, sorted(text)))), re.compile(b"|".join(sorted(content)), re.DOTALL)


def _is_ours(category: type[Warning]) -> bool:
    return category.__module__.startswith("labeldp")


def _chain(error: BaseException | None) -> Iterator[str]:
    """The texts of an error and of all that Python would print with it."""
    while error is not None:
        yield f"{error} {error.args!r} {getattr(error, '__notes__', '')}"
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _place(reader: Any, error: BaseException | None) -> str:
    if error is None:
        return reader.name
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if f"{os.sep}labeldp{os.sep}" in frame.filename] or list(frames)
    where = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else "?"
    return f"{reader.name}: {type(error).__name__} at {where}"


# ---------------------------------------------------------------------------------------------- processes


def work(options: argparse.Namespace) -> None:
    """A worker: runs every `jobs`-th execution from `first` on and writes what came of it to its standard output."""
    report = os.fdopen(os.dup(1), "w", buffering=1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    import pyarrow as pa

    pa.set_cpu_count(1)
    scratch = Path(options.scratch)
    fuzzer = Fuzzer(options.readers, scratch)
    fuzzer.check_good_files()
    limit_memory(MEMORY)
    with (scratch / "current").open("r+b") as file, mmap.mmap(file.fileno(), STATE.size) as current:
        for number in range(options.first, options.executions, options.jobs):
            current[:] = STATE.pack(number, time.monotonic(), b"corruption")
            reader, scene = fuzzer.corrupted(options.seed, number)
            current[:] = STATE.pack(number, time.monotonic(), reader.name.encode())
            outcome = fuzzer.run(reader, scene)
            line = {"reader": reader.name, "kind": outcome.kind}
            if outcome.kind == "violation":
                line |= {"place": outcome.place, "kept": _keep(options.findings, number, reader.name, scene, outcome)}
            report.write(json.dumps(line) + "\n")
            if time.monotonic() > options.until:
                break
        current[:] = STATE.pack(-1, time.monotonic(), b"")


def limit_memory(more: int) -> None:
    """Let this process have so much memory more than it has."""
    lines = Path("/proc/self/status").read_text().splitlines()
    used = next(int(line.split()[1]) for line in lines if line.startswith("VmSize")) << 10
    resource.setrlimit(resource.RLIMIT_AS, (used + more, used + more))


def _keep(findings: str, number: int, reader: str, scene: dict[str, bytes], outcome: Outcome) -> str | None:
    """Keep the files of a finding, unless enough of its place are kept."""
    folder = Path(findings)
    folder.mkdir(parents=True, exist_ok=True)
    mark = re.sub(r"[^\w.-]+", "_", outcome.place)[:120]
    if len(list(folder.glob(f"*-{mark}"))) >= KEPT_PER_PLACE:
        return None
    place = folder / f"{number}-{mark}"
    for name, content in scene.items():
        (place / "files" / name).parent.mkdir(parents=True, exist_ok=True)
        (place / "files" / name).write_bytes(content)
    (place / "why.json").write_text(json.dumps({"reader": reader, "why": outcome.why}, indent=1))
    return str(place)


class Worker:
    """A worker process, seen from outside."""

    def __init__(self, options: argparse.Namespace, first: int, scratch: Path) -> None:
        self.scratch = scratch
        scratch.mkdir(exist_ok=True)
        (scratch / "current").write_bytes(STATE.pack(first, time.monotonic() + STARTING_SECONDS, b""))
        passed = (
            "--seed",
            options.seed,
            "--jobs",
            options.jobs,
            "--executions",
            options.executions,
            "--findings",
            options.findings,
        )
        command = [
            sys.executable,
            __file__,
            "--worker",
            "--first",
            first,
            "--scratch",
            scratch,
            "--until",
            options.until,
            *passed,
        ]
        command += ["--readers", ",".join(options.readers)]
        environment = os.environ | {
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "COLUMNS": "200",
            "PYTHONHASHSEED": "0",
        }
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        self.process = subprocess.Popen(
            [str(part) for part in command], stdout=subprocess.PIPE, stderr=self.errors, env=environment
        )

    @property
    def current(self) -> tuple[int, float, str]:
        """The number of the execution that it is at, when that began, and its reader."""
        number, began, reader = STATE.unpack((self.scratch / "current").read_bytes())
        return number, began, reader.rstrip(b"\0").decode()

    def death(self) -> str:
        """Why it died: its exit code and the end of what it said."""
        self.errors.seek(0)
        words = self.errors.read().decode("utf-8", "replace")[-3000:]
        return f"exit code {self.process.returncode}\n{words}"


def fuzz(options: argparse.Namespace) -> Totals:
    """Run all executions in worker processes; returns the totals."""
    totals, began = Totals(), time.monotonic()
    options.until = began + options.seconds
    root = Path(tempfile.mkdtemp(prefix="labeldp-fuzz-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
    selector = selectors.DefaultSelector()
    try:
        for job in range(options.jobs):
            _register(selector, Worker(options, job, root / f"worker-{job}"))
        shown = began
        while selector.get_map():
            for key, _ in selector.select(timeout=1):
                worker = key.data
                line = worker.process.stdout.readline()
                if line:
                    _count(totals, json.loads(line))
                    continue
                selector.unregister(key.fileobj)
                worker.process.wait()
                if worker.process.returncode != 0:
                    following = _died(totals, worker, options)
                    if following is not None:
                        _register(selector, Worker(options, following, worker.scratch))
            for key in list(selector.get_map().values()):
                number, since, _ = key.data.current
                if number >= 0 and time.monotonic() - since > SILENT_SECONDS:
                    key.data.process.kill()
            if options.progress and time.monotonic() - shown > options.progress:
                shown = time.monotonic()
                totals.show(shown - began)
                print(flush=True)
    finally:
        for key in list(selector.get_map().values()):
            key.data.process.kill()
        shutil.rmtree(root, ignore_errors=True)
    totals.show(time.monotonic() - began)
    return totals


def _register(selector: selectors.BaseSelector, worker: Worker) -> None:
    selector.register(worker.process.stdout, selectors.EVENT_READ, worker)  # type: ignore[arg-type]


def _count(totals: Totals, line: dict[str, Any]) -> None:
    totals.counts[line["reader"], line["kind"]] += 1
    if "place" in line:
        totals.places[line["place"]] += 1
        if line["kept"]:
            print(f"{line['place']}: {line['kept']}", flush=True)


def _died(totals: Totals, worker: Worker, options: argparse.Namespace) -> int | None:
    """Count the death of a worker as a finding; returns the number of the next execution."""
    number, _, reader = worker.current
    if not reader:
        raise SystemExit(f"a worker could not begin: {worker.death()}")
    scene = {
        str(path.relative_to(worker.scratch / "execution")): path.read_bytes()
        for path in (worker.scratch / "execution").rglob("*")
        if path.is_file()
    }
    place = f"{reader}: died with {worker.process.returncode}"
    kept = _keep(options.findings, number, reader, scene, Outcome("violation", worker.death(), place))
    _count(totals, {"reader": reader, "kind": "violation", "place": place, "kept": kept})
    return number + options.jobs if number + options.jobs < options.executions else None


def replay(folder: Path) -> Outcome:
    """Run a kept finding again, with its traceback."""
    why = json.loads((folder / "why.json").read_text())
    with tempfile.TemporaryDirectory() as scratch:
        fuzzer = Fuzzer([why["reader"]], Path(scratch))
        scene = {
            str(path.relative_to(folder / "files")): path.read_bytes()
            for path in (folder / "files").rglob("*")
            if path.is_file()
        }
        limit_memory(MEMORY)
        outcome = fuzzer.run(fuzzer.readers[0], scene, show=True)
    print(f"{outcome.kind} {outcome.why}")
    return outcome


def main() -> None:
    """Parse the options and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--executions", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--readers", type=lambda text: [name for name in text.split(",") if name], default=[])
    parser.add_argument("--findings", default="fuzz-findings", help="where inputs that found something are kept")
    parser.add_argument("--progress", type=float, default=60.0, help="seconds between totals; 0 for none")
    parser.add_argument("--replay", type=Path)
    for name, kind in (("first", int), ("scratch", str), ("until", float)):
        parser.add_argument(f"--{name}", type=kind, help=argparse.SUPPRESS)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options)
    elif options.replay:
        sys.exit(replay(options.replay).kind == "violation")
    else:
        totals = fuzz(options)
        sys.exit(not totals.counts or any(kind == "violation" for _, kind in totals.counts))


if __name__ == "__main__":
    main()
