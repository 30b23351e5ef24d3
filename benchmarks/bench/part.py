"""The command line that all parts share: `--quick`, `--json FILE` and `--plot FILE`."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

from bench.results import Result

ROOT = Path(__file__).resolve().parents[2]


def parser(description: str) -> argparse.ArgumentParser:
    """With the options of every part."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--quick", action="store_true", help="small sizes and few rounds, to see that it runs")
    made.add_argument("--json", type=Path, help="write all figures to this file")
    made.add_argument("--plot", type=Path, help="draw the picture to this file (.svg or .png)")
    return made


def finish(options: argparse.Namespace, measure: Callable[[], Result], draw: Callable[[Result, Path], None]) -> int:
    """Measure, print, and write what was asked for."""
    started = time.perf_counter()
    result = measure()
    result.seconds = round(time.perf_counter() - started, 1)
    result.command = typed(sys.argv)
    print(f"{result.text()}\n\n{result.seconds:.0f} s, {result.date}, {result.machine['processor']}")
    if options.json:
        result.write(options.json)
    if options.plot:
        options.plot.parent.mkdir(parents=True, exist_ok=True)
        draw(result, options.plot)
    return 0


def typed(arguments: list[str]) -> str:
    """The command that was given, without the names of files and folders."""
    script, *rest = arguments
    shown, words = [f"python benchmarks/{Path(script).name}"], iter(rest)
    for word in words:
        if word in {"--json", "--plot", "--folder"}:
            next(words, None)
        elif not word.startswith(("--json=", "--plot=", "--folder=")):
            shown.append(word)
    return " ".join(shown)


def say(text: str) -> None:
    """Progress, on standard error."""
    print(text, file=sys.stderr, flush=True)
