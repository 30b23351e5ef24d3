"""Tables, contests and targets of one part, as text, markdown and JSON.

A *contest* is a row in which we and peers did the same work: one figure each, and whether a low or a high one is better.
`standing.py` looks for contests in which a peer is ahead. A *target* is a figure that was promised.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.machine import machine, today, versions

Cell = str | float | int | None
PLAIN = "~"
"""The form of numbers of any size: three digits, and no exponent for large ones."""


@dataclass(frozen=True)
class Column:
    """A column of a table: the key of its cells, its heading, and how numbers are written."""

    key: str
    title: str
    form: str = ""


@dataclass
class Table:
    """Rows by key. `caption` is one sentence that says what the figures are."""

    key: str
    caption: str
    columns: list[Column]
    rows: list[dict[str, Cell]] = field(default_factory=list)

    def add(self, **cells: Cell) -> None:
        """A row; cells that are left out are empty."""
        unknown = cells.keys() - {column.key for column in self.columns}
        if unknown:
            raise KeyError(f"table {self.key} has no columns {', '.join(sorted(unknown))}")
        self.rows.append(cells)

    def written(self) -> list[list[str]]:
        """The cells as they are shown, without the headings."""
        return [[written(row.get(column.key), column.form) for column in self.columns] for row in self.rows]

    def text(self) -> str:
        """For a terminal, in columns."""
        lines = [[column.title for column in self.columns], *self.written()]
        widths = [max(len(line[place]) for line in lines) for place in range(len(self.columns))]
        shown = [
            "  ".join(
                cell.rjust(width) if column.form else cell.ljust(width)
                for cell, width, column in zip(line, widths, self.columns, strict=True)
            ).rstrip()
            for line in lines
        ]
        return "\n".join([self.caption, *(f"  {line}" for line in shown)])

    def markdown(self) -> str:
        """For a page: the caption, then the table."""
        heads = "| " + " | ".join(column.title for column in self.columns) + " |"
        rule = "|" + "|".join("---:" if column.form else "---" for column in self.columns) + "|"
        rows = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in self.written()]
        return "\n".join([self.caption, "", heads, rule, *rows])


@dataclass
class Contest:
    """One piece of work, and what each contender reached."""

    key: str
    better: str
    ours: dict[str, float]
    peers: dict[str, float]
    measure: str = ""

    def __post_init__(self) -> None:
        if self.better not in {"low", "high"}:
            raise ValueError(f"better is low or high, not {self.better!r}")


@dataclass
class Target:
    """A figure that was promised, what was measured, and, where it is missed, the reason."""

    name: str
    limit: float
    measured: float
    unit: str = ""
    better: str = "low"
    why: str = ""

    @property
    def met(self) -> bool:
        """Whether the figure lies on the right side of its limit."""
        return self.measured <= self.limit if self.better == "low" else self.measured >= self.limit


@dataclass
class Result:
    """All that one run of a part found."""

    part: str
    title: str
    command: str
    quick: bool = False
    tables: list[Table] = field(default_factory=list)
    contests: list[Contest] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)
    peers: dict[str, str] = field(default_factory=dict)
    """Of each peer, its version, or why there are no figures of it."""
    notes: list[str] = field(default_factory=list)
    plot: dict[str, Any] = field(default_factory=dict)
    """Plain numbers from which the part's picture is drawn."""
    date: str = field(default_factory=today)
    machine: dict[str, Any] = field(default_factory=machine)
    versions: dict[str, str] = field(default_factory=versions)
    seconds: float = 0.0

    def text(self) -> str:
        """For a terminal."""
        head = f"{self.title}{' (quick: small sizes)' if self.quick else ''}"
        peers = [f"  {name}: {what}" for name, what in self.peers.items()]
        targets = [f"  target {target_line(target)}" for target in self.targets]
        return "\n\n".join(
            filter(None, [head, *(table.text() for table in self.tables), "\n".join(targets), "\n".join(peers)])
        )

    def write(self, path: Path) -> None:
        """As JSON, a line for each field, numbers with seven digits."""
        path.parent.mkdir(parents=True, exist_ok=True)
        fields = (
            f"{json.dumps(key)}: {json.dumps(_short(value), ensure_ascii=False)}" for key, value in asdict(self).items()
        )
        path.write_text("{\n" + ",\n".join(fields) + "\n}\n", encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Result:
        """What `write` wrote."""
        data = json.loads(path.read_text(encoding="utf-8"))
        data["tables"] = [
            Table(table["key"], table["caption"], [Column(**column) for column in table["columns"]], table["rows"])
            for table in data["tables"]
        ]
        data["contests"] = [Contest(**contest) for contest in data["contests"]]
        data["targets"] = [Target(**target) for target in data["targets"]]
        return cls(**data)


def target_line(target: Target) -> str:
    """A target in words: met, or how far away and why."""
    sign = "at most" if target.better == "low" else "at least"
    head = f"{target.name}: {sign} {target.limit:g}{target.unit}, measured {target.measured:.3g}{target.unit}"
    if target.met:
        return f"{head}: met"
    distance = target.measured / target.limit if target.better == "low" else target.limit / target.measured
    why = f" {target.why}" if target.why else ""
    return f"{head}: missed by a factor of {distance:.2f}.{why}"


def _short(value: Any) -> Any:
    """The same with numbers of seven digits."""
    if isinstance(value, dict):
        return {key: _short(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_short(item) for item in value]
    return float(f"{value:.7g}") if isinstance(value, float) else value


def written(value: Cell, form: str) -> str:
    """A cell as it is shown."""
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    if form == PLAIN:
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return format(value, form)
