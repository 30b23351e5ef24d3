"""Random releases under random faults, and what must hold after each: a search for a broken promise of `privatize` and `apply`.

Run: python benchmarks/soak.py --faults 2000 [--seed 0] [--jobs 1]
     python benchmarks/soak.py --minutes 60
     python benchmarks/soak.py --scene 17 --seed 0     (plays one scene again)
     python benchmarks/soak.py --self-test             (plants bugs and sees that each is found)

Each scene makes up labels and runs `labeldp privatize` and `labeldp apply` on them as processes of their own. The faults:
kill -9 at an audited event of Python (a file opened, renamed or removed, a lock, a connection to the ledger) or at a moment in
time, Ctrl-C, a full disk, a read-only disk, a clock that jumps, several runs at once on one message, key file or ledger, and an
input that changes while it is read. After each fault:

- no record was ever seen with two codes under one release, in any message, copy or leftover of a killed run;
- every release that was drawn is in the ledger, with at least the ε that its message states, and so is every later batch;
- the charges keep within the budget, equal requests are charged once, the ledger's file is undamaged and its chain holds;
- a message is whole or not there, but for a batch that a killed run added and did not list, which readers refuse;
- nothing printed or sent holds a label's digits; no run hangs or ends with a traceback;
- once the fault is gone the same command ends well, readers accept its message and its signature, and nothing else is left.

Exit code 1 if a promise is broken. Full and read-only disks need the right to mount (root): otherwise a limit on the size of
files stands for the full disk, and the read-only disk is left out if permissions do not bind the user. Linux only.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import random
import sys
import tempfile
import time
import traceback
import warnings
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from labeldp import Ledger
from soaking import one_thread  # noqa: F401 - first: it must come before NumPy
from soaking.disks import own_mounts
from soaking.outsider import Violation
from soaking.planted import BUGS
from soaking.play import KINDS, Play, Stage, Tally
from soaking.processes import call, make_forks_cheap
from soaking.scene import MECHANISMS, draw_batch, draw_release
from soaking.workers import results_of, start_worker

MOST_VIOLATIONS = 10
"""So many are enough to look at."""

SELF_TEST_FAULTS = 300
"""A planted bug that so many faults do not find is not found."""


def main() -> None:
    options = _options()
    with _memory_folder() as folder:
        _warm_up(folder)
        if options.self_test:
            sys.exit(0 if _self_test(options, folder) else 1)
        tally, broken = _soak(options, folder, options.sabotage)
    _report(tally, broken, options)
    sys.exit(1 if broken else 0)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--faults", type=int, help="stop after so many faults (200 by default)")
    length.add_argument("--minutes", type=float, help="stop after so many minutes")
    length.add_argument("--scene", type=int, help="play this scene only")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="processes that play scenes at the same time")
    parser.add_argument("--sabotage", choices=BUGS, help="plant a bug, which should be found")
    parser.add_argument("--self-test", nargs="*", metavar="BUG", help="plant these bugs in turn, or all")
    options = parser.parse_args()
    if options.self_test is not None:
        options.self_test = options.self_test or list(BUGS)
        if unknown := set(options.self_test) - set(BUGS):
            parser.error(f"there is no bug {', '.join(unknown)}: choose from {', '.join(BUGS)}")
    if options.faults is None and options.minutes is None and options.scene is None:
        options.faults = 200
    return options


def _memory_folder() -> contextlib.AbstractContextManager[str]:
    """A folder in memory where there is one, since faults flush files thousands of times."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    return tempfile.TemporaryDirectory(prefix="labeldp-soak-", dir=memory, ignore_cleanup_errors=True)


def _warm_up(folder: str) -> None:
    """Loads and compiles all that the commands use, so that a forked process begins where a command does its work."""
    warnings.simplefilter("ignore")
    started = time.monotonic()
    with tempfile.TemporaryDirectory(dir=folder) as name, open(os.devnull, "w") as nowhere:  # noqa: PTH123
        for number, mechanism in enumerate(MECHANISMS):
            place = Path(name) / str(number)
            place.mkdir()
            rng = random.Random(number)
            release = draw_release(rng, place, place, place)
            ledger = place / "ledger.db"
            if release.ledger is None:
                Ledger.create(ledger).add_dataset("data", 40)
            release = replace(release, mechanism=mechanism, key=place / "key", ledger=ledger, ids=True)
            with contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
                codes = [call(release.command), call(draw_batch(rng, release, 1).command)]
            if codes != [0, 0]:
                raise SystemExit(f"a release without faults ended with {codes}: nothing to soak")
    make_forks_cheap()
    print(f"loaded in {time.monotonic() - started:.1f} s", file=sys.stderr)


def _soak(options: argparse.Namespace, folder: str, bug: str | None) -> tuple[Tally, list[dict[str, Any]]]:
    """Scenes in `--jobs` processes until there are enough faults, or a planted bug is found."""
    fork = multiprocessing.get_context("fork")
    enough = fork.Event()
    started = time.monotonic()
    workers = [start_worker(_work, options, folder, bug, index, enough) for index in range(options.jobs)]
    tally, broken, scenes = Tally(), [], 0
    try:
        for result in results_of(workers):
            scenes += 1
            tally.add(result["tally"])
            if result["violation"]:
                broken.append(result)
            total, minutes = tally.faults.total(), (time.monotonic() - started) / 60
            if (
                (options.faults is not None and total >= options.faults)
                or (options.minutes is not None and minutes >= options.minutes)
                or len(broken) >= (MOST_VIOLATIONS if bug is None else 1)
            ):
                enough.set()
            if sys.stderr.isatty():
                print(
                    f"\r{scenes:,} scenes, {total:,} faults, {len(broken)} violations, {minutes:.1f} min ",
                    end="",
                    file=sys.stderr,
                )
    except KeyboardInterrupt:
        enough.set()
    for worker in workers:
        worker.process.join()
    if sys.stderr.isatty():
        print(file=sys.stderr)
    tally.seconds = time.monotonic() - started
    return tally, broken


def _work(
    results: Connection, options: argparse.Namespace, folder: str, bug: str | None, index: int, enough: Any
) -> None:
    """Plays every `--jobs`-th scene, on disks of its own."""
    with tempfile.TemporaryDirectory(dir=folder, ignore_cleanup_errors=True) as name:
        mounts = own_mounts()
        stage = Stage.make(Path(name), mount=mounts)
        number = index if options.scene is None else options.scene
        while not enough.is_set():
            results.send(_play(stage, options.seed, number, bug))
            if options.scene is not None:
                break
            number += options.jobs
        stage.clear()


def _play(stage: Stage, seed: int, number: int, bug: str | None) -> dict[str, Any]:
    play = Play(stage, f"{seed}/{number}", None if bug is None else BUGS[bug])
    violation = None
    try:
        play.play()
    except Violation as found:
        violation = f"{found}\n    {play.last}"
    except Exception:  # noqa: BLE001 - a scene that cannot be checked is a finding too
        violation = f"{traceback.format_exc()}\n    {play.last}"
    return {"scene": number, "tally": play.tally, "violation": violation}


def _self_test(options: argparse.Namespace, folder: str) -> bool:
    """Plants each bug and soaks until it is found."""
    options.faults, options.minutes, options.scene = SELF_TEST_FAULTS, None, None
    print(f"{'planted bug':<24} {'found after':>12}   as")
    missed = False
    for bug in options.self_test:
        tally, broken = _soak(options, folder, bug)
        said = broken[0]["violation"].splitlines()[0] if broken else ""
        found = (
            bool(broken) and "ended with a traceback" not in said
        )  # that is a bug which does not fit the code any more
        missed |= not found
        faults = f"{tally.faults.total()} faults" if found else "not found"
        print(f"{bug:<24} {faults:>12}   {said[:150]}", flush=True)
    return not missed


def _report(tally: Tally, broken: list[dict[str, Any]], options: argparse.Namespace) -> None:
    total = tally.faults.total()
    print(f"{total:,} faults in {tally.seconds / 60:.1f} minutes, {tally.runs:,} runs, seed {options.seed}\n")
    _table("fault", [(kind, tally.faults[kind]) for kind in KINDS])
    _table("runs that", tally.ended.most_common())
    _table("last event before the end", tally.hit.most_common(25))
    print(f"violations: {len(broken)}")
    for result in broken:
        sabotage = "" if options.sabotage is None else f" --sabotage {options.sabotage}"
        print(f"\n  {result['violation']}")
        if result["scene"] is not None:
            print(f"  again: python benchmarks/soak.py --seed {options.seed} --scene {result['scene']}{sabotage}")


def _table(title: str, rows: list[tuple[str, int]]) -> None:
    print(f"{title:<34} {'count':>7}")
    for name, count in rows:
        print(f"{name:<34} {count:>7,}")
    print()


if __name__ == "__main__":
    main()
