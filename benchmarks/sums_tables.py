"""The tables that `sums.py` prints, and what they say about the aims it was written for."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

METHODS = {
    "not private": "nothing",
    "not private (default)": "nothing",
    "mean": "nothing: it is the true mean",
    "labels": "labels, ε (δ = 0), exact; each private label may be handed on",
    "labels (boosting)": "labels, ε (δ = 0), exact; each private label may be handed on",
    "sums": "labels, ε (δ = 0), exact; the model may be handed on",
    "plain": "labels, ε (δ = 0), exact; the model may be handed on",
    "adassp": "labels, (ε, δ = 1e-6), in floats; the model may be handed on",
    "ridge": "labels, (ε, δ = 1e-6), in floats; the model may be handed on",
    "dp-ebm": "labels and features, (ε, δ = 1e-6), in floats; the model may be handed on",
}
"""What each method protects, for replacing one label (DP-EBM: for one record)."""
WIDTH = 12
SHORT = {"not private (default)": "np default", "labels (boosting)": "labels, boo."}
BOTH = ("labels", "labels (boosting)")

Cell = dict[str, np.ndarray]


def show(rows: list[dict], data: str, records: int) -> None:
    """Mean test errors of one data set and size, then paired ratios to `labels` with their standard errors."""
    cells = cells_of(rows, data, records)
    names = [name for name in METHODS if any(name in cell for cell in cells.values())]
    seeds = max(len(values) for cell in cells.values() for values in cell.values())
    print(f"\n{data}, n = {records:,}, {seeds} seeds. Mean test MSE:")
    print(f"{'ε':>5}" + "".join(f"{SHORT.get(name, name):>{WIDTH + 1}}" for name in names) + "  plain call")
    for epsilon, cell in cells.items():
        means = "".join(f"{np.nanmean(cell[name]) if name in cell else np.nan:>{WIDTH + 1},.2f}" for name in names)
        print(f"{epsilon:>5g}{means}  {chosen(rows, data, records, epsilon)}")
    ratios = [name for name in names if name not in {"not private (default)", "mean", "labels"}]
    print("Mean of paired ratios to labels ± standard error:")
    print(f"{'ε':>5}" + "".join(f"{SHORT.get(name, name):>16}" for name in ratios))
    for epsilon, cell in cells.items():
        texts = [plus_minus(ratio(cell, name, "labels"), 3) for name in ratios]
        print(f"{epsilon:>5g}" + "".join(f"{text:>16}" for text in texts))


def judge(rows: list[dict]) -> None:
    """A line for each aim, for noisy sums and for the plain call, and what each method protects."""
    print("\nExcess over non-private boosting, relative to that of labels (± standard error):")
    for size, most in ((10_000, 0.35), (50_000, 0.42)):
        cell = cells_of(rows, "criteo", size).get(0.5, {})
        for name in ("sums", "plain"):
            for other in BOTH:
                found = excess(cell, name, other)
                what = f"criteo n = {size:,} ε = 0.5, {name} to {other}"
                print(verdict(what, found, most) + (", aim 0.25" if found else ""))
    for data, other, most in (("rand-hie", "mean", 0.95), ("fertility", "not private", 1.003)):
        cell = next((cells.get(0.5, {}) for cells in (cells_of(rows, data, n) for n in sizes(rows, data)) if cells), {})
        for name in ("sums", "plain"):
            print(verdict(f"{data} ε = 0.5, error of {name} to {other}", ratio(cell, name, other), most, 4))
    for other in BOTH:
        worst = largest(rows, "plain", other)
        where = f" at {worst[0]}" if worst else ""
        print(verdict(f"largest error of plain to {other}{where}", worst and worst[1], 1.01, 4, errors=2))
    print("\nWhat is protected, and how:")
    for name, words in METHODS.items():
        print(f"  {name:<22}{words}")


def sizes(rows: list[dict], data: str) -> list[int]:
    return sorted({row["records"] for row in rows if row["data"] == data})


def cells_of(rows: list[dict], data: str, records: int) -> dict[float, Cell]:
    """For each ε the errors of each method in order of seeds, NaN where a seed lacks one."""
    merged: dict[float, dict[int, dict[str, float]]] = {}
    for row in rows:
        if (row["data"], row["records"]) == (data, records):
            merged.setdefault(row["epsilon"], {}).setdefault(row["seed"], {}).update(row["errors"])
    return {
        epsilon: {
            name: np.array([of_seed[seed].get(name, np.nan) for seed in sorted(of_seed)])
            for name in METHODS
            if any(name in errors for errors in of_seed.values())
        }
        for epsilon, of_seed in sorted(merged.items())
    }


def chosen(rows: list[dict], data: str, records: int, epsilon: float) -> str:
    """The methods that the plain call chose in this cell."""
    key = (data, records, epsilon)
    return " or ".join(sorted({row["method"] for row in rows if (row["data"], row["records"], row["epsilon"]) == key}))


def ratio(cell: Cell, name: str, other: str) -> tuple[float, float] | None:
    """The mean of paired ratios and its standard error."""
    values = paired(cell, name, other)
    return None if values is None else mean_and_error(values[0] / values[1])


def excess(cell: Cell, name: str, other: str) -> tuple[float, float] | None:
    """How much of `other`'s mean excess over "not private" is left in `name`, and its standard error by jackknife."""
    values = paired(cell, name, other, "not private")
    if values is None:
        return None
    one, two = values[0] - values[2], values[1] - values[2]
    return jackknife(lambda keep: one[keep].mean() / two[keep].mean(), len(one))


def largest(rows: list[dict], name: str, other: str) -> tuple[str, tuple[float, float]] | None:
    """The cell with the largest mean ratio."""
    found = {
        f"{data} n = {size:,} ε = {epsilon:g}": ratio(cell, name, other)
        for data, size in sorted({(row["data"], row["records"]) for row in rows})
        for epsilon, cell in cells_of(rows, data, size).items()
    }
    return max(((where, pair) for where, pair in found.items() if pair), key=lambda item: item[1][0], default=None)


def paired(cell: Cell, *names: str) -> np.ndarray | None:
    """The errors of several methods at the seeds that have all of them."""
    if not set(names) <= set(cell):
        return None
    values = np.array([cell[name] for name in names])
    values = values[:, np.isfinite(values).all(axis=0)]
    return values if values.size else None


def jackknife(statistic: Callable[[np.ndarray], float], size: int) -> tuple[float, float]:
    everything = np.arange(size)
    if size < 2:
        return float(statistic(everything)), np.nan
    without = np.array([statistic(np.delete(everything, i)) for i in everything])
    return float(statistic(everything)), float(np.sqrt((size - 1) * without.var()))


def mean_and_error(values: np.ndarray) -> tuple[float, float]:
    error = values.std(ddof=1) / np.sqrt(values.size) if values.size > 1 else np.nan
    return float(values.mean()), float(error)


def plus_minus(found: tuple[float, float] | None, digits: int) -> str:
    return "–" if found is None else f"{found[0]:.{digits}f} ± {found[1]:.{digits}f}"


def verdict(what: str, found: tuple[float, float] | None, most: float, digits: int = 3, *, errors: int = 1) -> str:
    """A line that says whether an aim was met by the mean, with so many standard errors."""
    if found is None:
        return f"  not run  {what}"
    shown = plus_minus((found[0], errors * found[1]), digits) + (f" ({errors} standard errors)" if errors > 1 else "")
    return f"  {'met' if found[0] <= most else 'NOT MET':<8} {what}: {shown}, at most {most}"
