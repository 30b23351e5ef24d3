"""What an attacker does to a message, edits and a manifest that fits them, and a pickle that runs code. Without labeldp's own code."""

from __future__ import annotations

import hashlib
import json
from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as pq
from sklearn.linear_model import LinearRegression


def edit_json(file, change):
    """Apply `change` to the record in a JSON file."""
    record = json.loads(file.read_text())
    change(record)
    file.write_text(json.dumps(record))


def rewrite_manifest(message, **totals):
    """A manifest for whatever the folder holds now, with the signature that was there. `totals` replaces its fields."""
    old = json.loads((message / "manifest.json").read_text())
    kind = old["manifest"]["kind"]
    text, stem, total = {
        "labels": ("mechanism.json", "labels", "epsilon_total"),
        "sums": ("sums.json", "records", "epsilon"),
    }.get(kind, (f"{kind}.json", "figures", "epsilon"))
    described = json.loads((message / text).read_text())
    ending = "csv" if stem == "figures" else "parquet"
    batches = [message / f"{stem}.{ending}", *sorted((message / stem).glob("part-*"))]
    data = [file.relative_to(message).as_posix() for batch in batches for file in files_of(batch)]
    files = [entry(message, name) for name in (text, "PRIVACY.md", *data)]
    manifest = old["manifest"] | {"files": files}
    if total in described:
        manifest["epsilon_total"] = described[total]
    (message / "manifest.json").write_text(
        json.dumps({"manifest": manifest | totals, "signature": old["signature"]}, indent=1)
    )


def files_of(batch):
    """The labels files of a batch, which is a file or a folder of parts."""
    return sorted(batch.iterdir()) if batch.is_dir() else [batch]


def entry(message, name):
    content = (message / name).read_bytes()
    rows = pq.ParquetFile(message / name).metadata.num_rows if name.endswith("parquet") else None
    rows = content.count(b"\n") - 1 if name.endswith("csv") else rows
    return {"name": name, "sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content), "rows": rows}


def rewrite_rows(message, change, name="labels.parquet"):
    """Replace a labels file by what `change` makes of its table."""
    pq.write_table(change(pq.read_table(message / name)), message / name)


def split(batch, cuts=(), write=pq.write_table):
    """Replace the one file of a batch by a folder of parts that end at these rows."""
    table = pq.read_table(batch)
    batch.unlink()
    batch.mkdir()
    edges = [0, *sorted(cuts), len(table)]
    for part, (start, end) in enumerate(pairwise(edges)):
        write(table.slice(start, end - start), batch / f"part-{part:05d}.parquet")


def batch_digest(message, name):
    """The digest by which a key file knows a batch in parts: that of the canonical text of its entries."""
    entries = [entry(message, file.relative_to(message).as_posix()) for file in files_of(message / name)]
    return hashlib.sha256(json.dumps(entries, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


class Trap:
    """Leaves a trace when it is unpickled."""

    def __init__(self, sentinel):
        self.sentinel = sentinel

    def __reduce__(self):
        return Path.touch, (Path(self.sentinel),)


class OwnRegressor(LinearRegression):
    """A user's own estimator."""
