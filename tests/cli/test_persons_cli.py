"""`--person`, several `--label`, `ledger create --unit` and `advise --persons` as a user meets them."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp.artifact.reader import Message

ORDERS = ("orders.parquet", "--id", "order", "--epsilon", "1")
AMOUNT = ("--label", "amount", "--lower", "0", "--upper", "100")
BOTH = ("--label", "amount", "--label", "days", "--bounds", "amount=0:100", "--bounds", "days=0:30")
PERSON = ("--person", "customer")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    generator = np.random.default_rng(0)
    columns = {
        "order": np.arange(3000),
        "customer": generator.integers(0, 800, 3000),
        "amount": generator.integers(0, 101, 3000),
        "days": generator.integers(0, 31, 3000),
    }
    pq.write_table(pa.table(columns), "orders.parquet")
    return tmp_path


def test_a_release_of_persons_is_charged_audited_and_added_to(run, folder):
    assert run("ledger", "create", "l.db", "--dataset", "sales", "--budget", "2", "--unit", "person")[0] == 0
    charged = ("--ledger", "l.db", "--dataset", "sales")
    code, _, error = run("privatize", *ORDERS, *AMOUNT, "--out", "m", *charged)
    assert code == 3
    assert "is for each person, and this release protects each record" in error
    code, output, _ = run("privatize", *ORDERS, *AMOUNT, *PERSON, "--out", "m", "--key-file", "k", *charged, "--json")
    assert code == 0
    record = json.loads(output)
    assert (record["unit"], record["labels_per_unit"], record["epsilon"]) == ("person", 1, "1")
    assert record["records"] + record["left_out"] == 3000
    code, output, _ = run("audit", "m")
    assert code == 0
    assert "a person, with at most 1 label in the message" in output
    code, output, _ = run("apply", "m", "orders.parquet", "--key-file", "k", "--ledger", "l.db")
    assert code == 0
    assert "left out 3,000 rows" in output
    code, output, _ = run("ledger", "show", "l.db")
    assert "sales for each person" in output


def test_a_dry_run_reads_persons_and_no_label(run, folder):
    code, output, _ = run("privatize", *ORDERS, *AMOUNT, *PERSON, "--dry-run", "--json")
    persons = len(set(pq.read_table("orders.parquet")["customer"].to_pylist()))
    assert code == 0
    assert (json.loads(output)["rows"], json.loads(output)["entries"]) == (persons, 1)


def test_several_labels_write_a_message_each(run, folder):
    shared = (*ORDERS, *BOTH, *PERSON, "--weights", "amount=2,days=1", "--out", "ms", "--key-file", "k")
    code, output, _ = run("privatize", *shared)
    assert code == 0
    assert "ε = 1 for all labels of a person, charged once" in output
    sizes = {name: Message.open(folder / "ms" / name).records for name in ("amount", "days")}
    assert sizes["amount"] > sizes["days"]
    code, output, _ = run("privatize", *shared, "--json")
    assert {name: each["records"] for name, each in json.loads(output)["messages"].items()} == sizes
    code, output, _ = run("audit", "ms", "--json")
    audited = json.loads(output)["releases"]
    assert {name: each["message"]["records"] for name, each in audited.items()} == sizes
    code, output, _ = run("audit", "ms")
    assert code == 0
    assert output.count("proven: the exact ratio") == 2
    assert "in the messages of amount and days together" in output
    code, _, error = run("apply", "ms", ORDERS[0], "--key-file", "k", "--label", "amount")
    assert code == 2
    assert "leave out --label" in error
    code, output, _ = run("apply", "ms", ORDERS[0], "--key-file", "k", "--json")
    assert code == 0
    assert [each["records"] for each in json.loads(output)["messages"].values()] == [0, 0]  # all persons are served
    assert {name: Message.open(folder / "ms" / name).records for name in sizes} == sizes
    (folder / "ms" / "days" / "labels.parquet").unlink()
    assert run("audit", "ms")[0] == 2


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        ((*BOTH, *PERSON), "give --key-file"),
        ((*BOTH, "--key-file", "k"), "name the column of persons"),
        ((*BOTH, *PERSON, "--dry-run"), "are for one label"),
        (
            (*BOTH, *PERSON, "--key-file", "k", "--engine", "spark"),
            "several labels are not possible with --engine spark",
        ),
        ((*BOTH, *PERSON, "--key-file", "k", "--weights", "amount"), "--weights takes each label once"),
        ((*AMOUNT, *PERSON, "--weights", "amount=2"), "are for several labels"),
        ((*AMOUNT, "--label", "amount"), "given twice"),
        ((*BOTH, *PERSON, "--bounds", "count=0:1"), "--bounds takes one of the labels"),
        ((*BOTH, *PERSON, "--key-file", "k", "--integers", "0:9"), "every label has its own --bounds"),
        ((*BOTH[:6], *PERSON, "--key-file", "k"), "the label 'days' has no bounds"),
        ((*BOTH[:6], *PERSON, "--key-file", "k", "--lower", "x", "--upper", "4"), "--lower"),
        ((*AMOUNT, "--person", "amount"), "cannot be the column of persons"),
        ((*AMOUNT, "--person", "custumer"), "custumer"),
    ],
)
def test_what_cannot_work_is_refused_with_a_reason(run, folder, arguments, wrong):
    code, output, error = run("privatize", *ORDERS, *arguments, "--out", "m")
    assert (code, output) == (2, "")
    assert wrong in error
    assert not (folder / "m").exists()


def test_advice_for_persons(run):
    bounds = ("--lower", "0", "--upper", "400", "--epsilon", "1")
    code, output, _ = run("advise", *bounds, "--persons", "10000", "--rows-per-person", "5", "--json")
    assert code == 0
    record = json.loads(output)
    (prediction,) = record["predictions"]
    assert (record["persons"], record["records"], prediction["labels_per_unit"]) == (10_000, 50_000, 1)
    assert prediction["labels"]["mse"] < prediction["paper"]["mse"]
    assert prediction["risk"]["rows_per_person"] == 1
    for more, wrong in (
        (("--records", "5"), "--records N"),
        (("--target-r2", "0.3"), "a target can only be used with records"),
    ):
        code, _, error = run("advise", *bounds, "--persons", "10", *more)
        assert code == 2
        assert wrong in error
