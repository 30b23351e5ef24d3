"""`make bench`: every part in order, each in a process of its own, within a budget of time; then the page is written.

    python benchmarks/run.py [--quick] [--only optimiser,files] [--minutes 60] [--out docs/research/benchmarks]

A part that fails or would take longer than what is left is ended and named; the others go on. `--quick` runs small sizes, writes to
benchmarks/results/quick and leaves the page alone.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

from bench.part import ROOT
from bench.startup_figures import as_result

PARTS = ("optimiser", "randomizing", "files", "labels", "models", "auditing", "startup")
STARTUP = "startup"
HERE = Path(__file__).resolve().parent


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="all parts at small sizes, in less than five minutes")
    parser.add_argument("--only", default=",".join(PARTS), help="parts, with commas")
    parser.add_argument("--minutes", type=float, default=60, help="the time for all parts together")
    parser.add_argument("--out", type=Path, help="where JSON files and pictures go")
    options = parser.parse_args()
    parts = options.only.replace(" ", "").split(",")
    unknown = set(parts) - set(PARTS)
    if unknown:
        parser.error(f"no part called {', '.join(sorted(unknown))}: there are {', '.join(PARTS)}")
    out = options.out or (HERE / "results" / "quick" if options.quick else ROOT / "docs" / "research" / "benchmarks")
    out.mkdir(parents=True, exist_ok=True)
    failed = run(parts, out, quick=options.quick, minutes=options.minutes)
    if not options.quick and options.out is None:
        failed += (
            [] if subprocess.run([sys.executable, str(HERE / "page.py")], check=False).returncode == 0 else ["page"]
        )
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return int(bool(failed))


def run(parts: list[str], out: Path, *, quick: bool, minutes: float) -> list[str]:
    """The names of parts that failed."""
    started, failed, lines = time.monotonic(), [], []
    for part in parts:
        left = 60 * minutes - (time.monotonic() - started)
        command = command_of(part, out, quick=quick)
        print(f"\n== {part} ({left / 60:.0f} min left)", flush=True)
        begun = time.monotonic()
        try:
            code = subprocess.run(command, check=False, timeout=max(1.0, left)).returncode
            verdict = "done" if code == 0 else f"failed with exit code {code}"
        except subprocess.TimeoutExpired:
            code, verdict = 1, "ended: the budget of time is spent"
        if code:
            failed.append(part)
        elif part == STARTUP:
            written = out / f"{part}.json"
            result = as_result(written, quick=quick)
            result.seconds = round(time.monotonic() - begun, 1)
            result.write(written)
        lines.append(f"  {part:12} {time.monotonic() - begun:6.0f} s  {verdict}")
    print("\n" + "\n".join(lines) + f"\n  {'all':12} {time.monotonic() - started:6.0f} s", flush=True)
    return failed


def command_of(part: str, out: Path, *, quick: bool) -> list[str]:
    """What runs one part. Start-up has no picture, and rounds instead of small sizes."""
    command = [sys.executable, str(HERE / f"{part}.py"), "--json", str(out / f"{part}.json")]
    if part == STARTUP:
        return [*command, *(["--rounds", "1"] if quick else [])]
    return [*command, "--plot", str(out / f"{part}.svg"), *(["--quick"] if quick else [])]


if __name__ == "__main__":
    raise SystemExit(main())
