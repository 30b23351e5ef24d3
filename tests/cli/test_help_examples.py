"""Every example that `labeldp COMMAND --help` shows runs as it stands, where the files that it names exist."""

from __future__ import annotations

import importlib.util
import shlex
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from labeldp import Domain, LabelRandomizer, Ledger, Message

pytest.importorskip("sphinx", reason="the pages of the commands need labeldp[docs]")

ROOT = Path(__file__).resolve().parents[2]
ELSEWHERE = {
    "hdfs://": "needs a cluster: tests/cli/test_spark_cli.py has files of this machine",
    "labeldp explore": "does not end: tests/explore has the page",
    "labeldp demo": "tests/cli/test_demo_cli.py",
    "--rows 200000": "takes minutes: tests/cli/test_reproduce_cli.py has fewer rows",
    "EXT1940USCB.dat": "needs the census file",
    "…": "the hash is cut short: tests/cli/test_ledger_cli.py has a whole one",
}
TORCH = "--model network"


def examples():
    place = ROOT / "docs" / "_ext" / "command_pages.py"
    spec = importlib.util.spec_from_file_location("command_pages", place)
    pages = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(pages)
    for name, command in pages.commands():
        shown = pages.described(command)[1]
        assert shown, f"labeldp {name} --help shows no example"
        yield from shown


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A folder with every file that the examples read."""
    import labeldp.cli as front

    folder = tmp_path_factory.mktemp("examples")

    def labeldp(line):
        words = [str(folder / word[1:]) if word.startswith("@") else word for word in shlex.split(line)]
        front.app(words, standalone_mode=False)

    labeldp("sample-data @. --rows 2000")
    sales, clicks = (pq.read_table(folder / name) for name in ("sales.parquet", "clicks.parquet"))
    rows = sales.num_rows
    extra = {
        "shop": pa.array(np.arange(rows) % 5).cast(pa.string()),
        "country": pa.array(["NL", "FR"] * (rows // 2)),
        "user": pa.array(np.arange(rows) % 300),
    }
    table = clicks
    for name, column in extra.items():
        table = (
            table.set_column(table.column_names.index(name), name, column)
            if name in table.column_names
            else table.append_column(name, column)
        )
    pa_csv.write_csv(table, folder / "clicks.csv")
    pq.write_table(clicks.append_column("amount", sales["amount"]).drop_columns(["order"]), folder / "test.parquet")
    pq.write_table(sales.set_column(0, "order", pa.array(np.arange(rows) + 10_000_000)), folder / "tuesday.parquet")
    pa_csv.write_csv(pa.table({"person": np.arange(500), "weeks": np.arange(500) % 53}), folder / "weeks.csv")
    visits = pa.table({"visit": np.arange(500), "bought": np.where(np.arange(500) % 5, "no", "yes")})
    pa_csv.write_csv(visits, folder / "visits.csv")
    orders, days = sales["order"], np.arange(rows) % 30
    persons = {"customer": np.arange(rows) // 4, "amount": sales["amount"], "days": days}
    pq.write_table(pa.table({"order": orders, **persons}), folder / "orders.parquet")
    later = {"order": np.arange(rows) + 10_000_000, **persons, "customer": persons["customer"] + rows}
    pq.write_table(pa.table(later), folder / "later.parquet")
    yes = np.where(days < 6, "yes", "no")
    stays = {"patient": persons["customer"], "ward": extra["country"], "stay": days, "readmitted": yes, "bought": yes}
    pq.write_table(pa.table({"visit": orders, **stays}), folder / "visits.parquet")
    pq.write_table(pa.table({"visit": orders, "rate": np.full(rows, 0.2)}), folder / "rates.parquet")
    pq.write_table(pa.table({"order": orders, "prediction": np.full(rows, 80.0)}), folder / "predictions.parquet")
    Ledger.create(folder / "ledger.db").add_dataset("sales", budget=100)
    labeldp("signing-keys @sender")
    bounds = "--label amount --id order --epsilon 1 --lower 0 --upper 400 --quiet"
    ledger = "--ledger @ledger.db --dataset sales"
    release = f"privatize @sales.parquet {bounds} {ledger}"
    labeldp(f"{release} --key-file @sales.key --out @message")
    labeldp(f"{release} --sign-key @sender-private.pem --out @signed")
    several = "--label amount --label days --bounds amount=0:400 --bounds days=0:30 --id order --person customer"
    labeldp(f"privatize @orders.parquet {several} --epsilon 1 --key-file @several.key --out @messages --quiet")
    labeldp("cells @clicks.parquet --id order --epsilon 1 --out @cells --quiet")
    shutil.copy(next((folder / "cells").glob("*.parquet")), folder / "cells.parquet")
    labeldp(f"sums @sales.parquet {bounds} --cells @cells.parquet {ledger} --out @sums")
    labeldp("train @message --features @clicks.parquet --id order --out @model --quiet")
    mechanism = LabelRandomizer(1, Domain(0, 400, cells=21), mechanism="rr-on-bins").fit(sales["amount"].to_numpy())
    (folder / "mechanism.json").write_text(mechanism.to_json(), encoding="utf-8")
    Message.open(folder / "message").mechanism.prior.to_csv(folder / "prior.csv")
    return folder


@pytest.mark.pages
@pytest.mark.parametrize("line", list(examples()), ids=lambda line: " ".join(line.replace("\\\n", " ").split())[:100])
def test_an_example_runs(line, prepared, run, tmp_path, monkeypatch):
    words = shlex.split(line.replace("\\\n", " "))
    for mark, where in ELSEWHERE.items():
        if mark in line:
            pytest.skip(where)
    if TORCH in line:
        pytest.importorskip("torch")
    here = tmp_path / "here"
    shutil.copytree(prepared, here)
    if "--out" in words:  # must not exist yet
        out = here / words[words.index("--out") + 1]
        shutil.rmtree(out, ignore_errors=True)
        out.unlink(missing_ok=True)
    if "privatize" in words or "sums" in words[:2]:
        (here / "sales.key").unlink()
    if "--verify-key" in words:
        shutil.rmtree(here / "message")
        (here / "signed").rename(here / "message")
    if words[1:3] == ["ledger", "create"]:
        (here / "ledger.db").unlink()
    monkeypatch.chdir(here)
    words = [str(tmp_path / Path(word).name) if word.startswith("/tmp/") else word for word in words]
    code, out, err = run(*words[1:])
    assert code == 0, err
    assert out or err
