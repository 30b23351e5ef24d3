"""One round of noisy sums between two parties, beside noisy labels: R² on held-out rows of the sample data, as `labeldp` writes it.

16,000 orders are for training and 4,000 are held out. Every run draws its noise afresh, so the last digit differs between runs of this script.

Run: python benchmarks/sums_two_parties.py [--runs 5] [--epsilon 0.5,1,2]
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from labeldp import LabelDPRegressor, LabelRandomizer, LabelSource, privatize
from labeldp.domain import Domain
from labeldp.learn.sums.cells_to_send import cells_of_file
from labeldp.learn.train import train
from labeldp.paper.data.criteo import write_sample_data
from labeldp.release.cells_file import CellsFile, write_cells
from labeldp.release.sums import sums_for_cells

TRAINED = 16_000
DOMAIN = Domain(0, 400)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--epsilon", default="0.5,1,2")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sales, clicks = (pq.read_table(path) for path in write_sample_data(folder, 20_000))
        held_out = clicks.slice(TRAINED).join(sales, "order")
        pq.write_table(clicks.slice(0, TRAINED), folder / "train.parquet")
        pq.write_table(sales.filter(pc.less_equal(sales["order"], TRAINED)), folder / "labels.parquet")
        print("ε      sums in one round   labels by privatize   sums in stages, one team")
        for epsilon in options.epsilon.split(","):
            plan, table = cells_of_file(folder / "train.parquet", "order", epsilon)
            write_cells(table, folder / "cells.parquet")
            (folder / "plan.json").write_text(plan.to_json(), encoding="utf-8")
            found = np.array([one_run(folder, epsilon, held_out, f"{epsilon}-{run}") for run in range(options.runs)])
            shown = [f"{mean:.3f} ± {spread:.3f}" for mean, spread in zip(found.mean(0), found.std(0), strict=True)]
            print(f"{epsilon:<6} {shown[0]:<19} {shown[1]:<21} {shown[2]}", flush=True)


def one_run(folder: Path, epsilon: str, held_out: pa.Table, run: str) -> list[float]:
    """R² on held-out rows of a model from one round, of one from private labels, and of one team's from sums in stages."""
    source = LabelSource(folder / "labels.parquet", "amount", "order")
    sums_for_cells(source, CellsFile.read(folder / "cells.parquet"), folder / f"sums-{run}", epsilon, DOMAIN)
    features = folder / "train.parquet"
    one_round = train(folder / f"sums-{run}", features, id="order", plan=folder / "plan.json").model
    privatize(source, LabelRandomizer(epsilon, DOMAIN), folder / f"message-{run}")
    labels = train(folder / f"message-{run}", features, id="order", folds=0).model
    team = LabelDPRegressor(epsilon=epsilon, domain=DOMAIN, method="sums")
    both = pq.read_table(features).join(pq.read_table(folder / "labels.parquet"), "order")
    team.fit(both.drop_columns(["order", "amount"]), both["amount"])
    truth = held_out["amount"].to_numpy()
    features = held_out.drop_columns(["order", "amount"])
    return [1 - np.mean((model.predict(features) - truth) ** 2) / truth.var() for model in (one_round, labels, team)]


if __name__ == "__main__":
    main()
