"""Write the tables of docs/research/benchmarks.md from the results of `make bench`.

    python benchmarks/page.py [--results docs/research/benchmarks] [--page docs/research/benchmarks.md] [--check]

Each part has a block between markers, which is replaced: command, date, tables, missed targets, picture, and where a
peer is ahead. The first block names the machine. What stands outside of the markers is written by hand. With `--check` nothing is written, and a page that is not up
to date is an error. A peer that is ahead without a sentence in `bench/sentences.toml` is an error, too, and so is a target that is missed
without a reason (`why`, in the part's script).
"""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import replace
from html import unescape
from pathlib import Path

from bench.part import ROOT
from bench.results import Column, Result, Table, target_line
from bench.standing import LEVEL, MissingSentenceError, lead_over_peers, leads, paragraphs, read_sentences

RESULTS, PAGE = ROOT / "docs" / "research" / "benchmarks", ROOT / "docs" / "research" / "benchmarks.md"
PARTS = {
    "optimiser": "the-optimiser",
    "randomizing": "randomizing",
    "files": "files",
    "labels": "labels",
    "models": "models",
    "auditing": "audits",
    "startup": "start-up",
}
"""The heading of each part on the page."""
DETAILS = re.compile(
    r"RPWithPrior beside|RPWithPrior, [\w ]+ beside| over (?:rr-on-bins|auto)$|^label error|^limits$|^growth$|^memory$|^protects$|^staircase$"
)
"""Tables (by key) and notes that only the JSON files of the results contain."""
ROWS = {
    ("optimiser", "losses"): lambda row: row["loss"] in {"squared", "absolute", "huber(20)"},
    ("optimiser", "sizes"): lambda row: row["k"] in {10, 100, 1_000, 2_000, 100_000, 1_000_000},
    ("files", "times"): lambda row: not re.match("100,000 rows|1,000,000 rows.*CSV", row["case"]),
    ("labels", "model error at 1"): lambda row: (
        row["mechanism"]
        not in {
            "staircase",
            "Laplace",
            "exponential, continuous",
            "exponential",
            "randomized response",
            "RRWithPrior",
            "RPWithPrior, least loss",
        }
    ),
    ("models", "errors"): lambda row: row["epsilon"] in {0.5, 2},
    ("startup", "startup"): lambda row: row["name"] not in {"help", "randomize rr-on-bins"},
}
"""Which rows of a table (by part and key) are on the page. The JSON files contain all rows."""
COLUMNS = {
    ("randomizing", "response"): {"spread"},
    ("randomizing", "laplace"): {"spread"},
    ("files", "times"): {"polars, noise only", "DuckDB, noise only", "spread", "rounds", "processor"},
    ("auditing", "audits"): {"proof", "samples", "power"},
    ("startup", "startup"): {"processor_seconds", "processor_ratio"},
}
"""Columns of a table (by part and key) that only the JSON files contain."""
BLOCK = re.compile(r"(<!-- begin (\w+) -->\n).*?(<!-- end \2 -->)", re.DOTALL)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--check", action="store_true", help="only say whether the page is up to date")
    options = parser.parse_args()
    before = options.page.read_text(encoding="utf-8")
    try:
        after = rendered(before, options.results)
    except MissingSentenceError as error:
        print(error, file=sys.stderr)
        return 1
    if options.check:
        if before != after:
            print(f"{options.page} is not what its results say: run python benchmarks/page.py", file=sys.stderr)
        return int(before != after)
    options.page.write_text(after, encoding="utf-8")
    return 0


def rendered(page: str, results: Path) -> str:
    """The page with every block written anew."""
    sentences = read_sentences()

    def block(found: re.Match[str]) -> str:
        if found[2] == "overview":
            return f"{found[1]}{overview(results)}\n{found[3]}"
        path = results / f"{found[2]}.json"
        if not path.exists():
            return f"{found[1]}Not measured yet.\n{found[3]}"
        return f"{found[1]}{part_text(Result.read(path), results, sentences)}\n{found[3]}"

    return BLOCK.sub(block, page)


def overview(results: Path) -> str:
    """The machine, and a line for each part that has figures: in how many rows who is ahead, and which targets are met."""
    shown = Table(
        "overview",
        "The table counts the rows in which we lead, are level (within 1 %), or a peer leads.",
        [
            Column("part", "part"),
            Column("rows", "rows", ",.0f"),
            Column("ahead", "we lead", ",.0f"),
            Column("level", "level", ",.0f"),
            Column("behind", "a peer leads", ",.0f"),
            Column("targets", "targets met"),
        ],
    )
    machines = []
    for part, anchor in PARTS.items():
        if not (results / f"{part}.json").exists():
            continue
        result = Result.read(results / f"{part}.json")
        machines.append(
            f"{result.machine['cores']} cores of {result.machine['processor']} with {result.machine['memory_gib']:g} GiB"
        )
        factors = [factor for contest in result.contests if (factor := lead_over_peers(contest)) is not None]
        behind = leads(result)
        counts = {
            "rows": len(factors),
            "ahead": sum(factor > LEVEL for factor in factors),
            "behind": len({lead.contest for lead in behind}),
        }
        counts["level"] = counts["rows"] - counts["ahead"] - counts["behind"]
        shown.add(
            part=f"[{result.part}](#{anchor})",
            targets=f"{sum(target.met for target in result.targets)} of {len(result.targets)}"
            if result.targets
            else "–",
            **(counts if factors else {}),
        )
    return f"Measured on {', '.join(dict.fromkeys(machines))}.\n\n{shown.markdown()}"


def part_text(result: Result, results: Path, sentences: list) -> str:
    """All that is written from one result."""
    pieces = [ran(result)]
    shown = [shortened(table, result.part) for table in result.tables if not DETAILS.search(table.key)]
    pieces += [table.markdown() for table in shown]
    pieces += [note for note in result.notes if not DETAILS.search(note)]
    silent = [target.name for target in result.targets if not (target.met or target.why)]
    if silent:
        raise MissingSentenceError(f"targets of {result.part} are missed and no reason is given: {'; '.join(silent)}")
    missed = [f"- Target, {target_line(target)}" for target in result.targets if not target.met]
    if missed:
        pieces.append("\n".join(missed))
    if result.contests:
        pieces += paragraphs(result, sentences)
    missing = [f"- {name}: {what}" for name, what in result.peers.items() if what.startswith("no figures")]
    if missing:
        pieces.append("Peers without figures in this run:\n\n" + "\n".join(missing))
    picture = results / f"{result.part}.svg"
    if picture.exists():
        words = re.search(r'aria-label="([^"]*)"', picture.read_text(encoding="utf-8"))
        alt = unescape(words[1]).replace("]", ")").replace("[", "(") if words else ""
        alt = (
            re.split(r"\. |: [^:]+ from [\d.]+ at ", alt)[0]
            + f". The file {result.part}.json contains all figures of this picture as numbers."
        )
        pieces.append(f"![{alt}](benchmarks/{picture.name})")
    return "\n\n".join(pieces)


def shortened(table: Table, part: str) -> Table:
    """The table with the rows and columns that the page shows."""
    keep, without = ROWS.get((part, table.key), lambda _: True), COLUMNS.get((part, table.key), set())
    columns = [column for column in table.columns if column.key not in without]
    return replace(table, columns=columns, rows=[row for row in table.rows if keep(row)])


def ran(result: Result) -> str:
    """Command and date. The JSON files of the results contain the machine and the versions of the peers."""
    small = " These are the small sizes of a quick run." if result.quick else ""
    return f"`{result.command}`, {result.date}.{small}"


if __name__ == "__main__":
    raise SystemExit(main())
