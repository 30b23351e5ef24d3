"""`labeldp ledger` as a user meets it: what is printed, what is refused, and the exit codes."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest

from labeldp.mechanisms import RROnBins
from labeldp.release import ledger as ledger_module
from labeldp.release.ledger import Ledger

CHEAP = RROnBins([10, 100], epsilon="0.25")


@pytest.fixture
def run(run):
    """Runs `labeldp ledger …`."""
    return lambda *arguments: run("ledger", *arguments)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "ledger.db"
    Ledger.create(path).add_dataset("sales", budget=3)
    return path


def test_create_makes_a_ledger_and_then_adds_to_it(run, tmp_path):
    path = tmp_path / "ledger.db"
    code, output, _ = run("create", path, "--dataset", "sales", "--budget", "3")
    assert code == 0
    assert "'sales' may spend ε = 3" in output
    assert "--dataset sales" in output
    assert run("create", path, "--dataset", "web visits", "--budget", "0.1")[0] == 0
    assert {d.name: d.budget for d in Ledger(path).datasets()} == {"sales": 3, "web visits": Fraction(1, 10)}


@pytest.mark.parametrize(
    ("dataset", "budget", "said"),
    [
        ("sales", "0", "budget"),
        ("", "1", "name a dataset"),
        *(("sales", text, "budget") for text in ("１", "1_0", "1,5", "nan")),
    ],
)
def test_a_refused_create_makes_no_file(run, tmp_path, dataset, budget, said):
    code, output, errors = run("create", tmp_path / "ledger.db", "--dataset", dataset, "--budget", budget)
    assert (code, output) == (2, "")
    assert said in errors
    assert list(tmp_path.iterdir()) == []


def test_create_does_not_raise_a_budget(run, path):
    code, _, errors = run("create", path, "--dataset", "sales", "--budget", "100")
    assert code == 2
    assert "already" in errors
    assert Ledger(path).remaining("sales") == 3


def test_show_prints_every_budget(run, path):
    ledger = Ledger(path)
    ledger.add_dataset("[red]visits", budget="1/3")
    ledger.reserve("sales", 0.5)
    code, output, _ = run("show", path)
    assert code == 0
    cells = [line.split() for line in output.splitlines()]
    assert ["sales", "3", "0.5", "2.5", "1", "1", "0", "0"] in cells
    assert ["[red]visits", "1/3", "0", "1/3", "0", "0", "0", "0"] in cells
    assert "To resume it at no further cost" in output
    headings = next(line for line in output.splitlines() if "budget" in line and "spent" in line)
    assert all(heading in headings for heading in ("unfinished releases", "later batches", "records in later batches"))


def test_show_as_json_is_exact(run, path):
    Ledger(path).reserve("sales", "0.1")
    code, output, _ = run("show", path, "--json")
    assert code == 0
    (dataset,) = json.loads(output)["datasets"]
    del dataset["created_at"]
    assert dataset == {
        "name": "sales",
        "unit": "record",
        "budget": "3",
        "spent": "0.1",
        "remaining": "2.9",
        "releases": 1,
        "uncommitted": 1,
        "batches": 0,
        "batch_records": 0,
    }


def test_history_lists_releases_of_all_datasets_or_of_one(run, path):
    assert "No release" in run("history", path)[1]
    ledger = Ledger(path)
    ledger.add_dataset("visits", budget=1)
    first, second = ledger.reserve("sales", 0.5), ledger.reserve("visits", 0.25)
    ledger.fix(first.id, CHEAP)
    ledger.commit(first.id)
    ledger.record_batch(first.id, records=1234, input_hmac="aa", mechanism_digest=CHEAP.digest)
    code, output, _ = run("history", path)
    assert code == 0
    for shown in (first.id[:8], second.id[:8], "committed", "reserved", "not fixed", CHEAP.digest[:8]):
        assert shown in output
    assert [line.split()[-2:] for line in output.splitlines() if first.id[:8] in line] == [["1", "1,234"]]
    output = run("history", path, "--dataset", "visits")[1]
    assert second.id[:8] in output
    assert first.id[:8] not in output
    releases = json.loads(run("history", path, "--json")[1])["releases"]
    assert [(r["id"], r["epsilon"], r["state"], r["mechanism_digest"], r["batch_records"]) for r in releases] == [
        (first.id, "0.5", "committed", CHEAP.digest, 1234),
        (second.id, "0.25", "reserved", None, 0),
    ]


@pytest.mark.parametrize("command", ["show", "history", "verify"])
def test_a_missing_ledger_says_how_to_make_one(run, tmp_path, command):
    code, _, errors = run(command, tmp_path / "absent.db")
    assert code == 2
    assert "labeldp ledger create" in errors
    assert list(tmp_path.iterdir()) == []


def test_a_locked_ledger_exits_with_3_and_says_what_to_do(run, path, monkeypatch):
    monkeypatch.setattr(ledger_module, "LOCK_TIMEOUT", 0.05)
    with closing(sqlite3.connect(path, isolation_level=None)) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        code, _, errors = run("create", path, "--dataset", "new", "--budget", "1")
    assert code == 3
    assert "another process" in errors
    assert "run again" in errors
    assert len(Ledger(path).datasets()) == 1


@pytest.mark.parametrize("command", ["show", "history", "verify"])
def test_a_damaged_ledger_exits_with_3_and_says_that_a_backup_forgets_charges(run, path, command):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TABLE release")
    code, output, errors = run(command, path)
    assert (code, output) == (3, "")
    assert "charge again what was released since" in " ".join(errors.split())


def test_verify_prints_the_head_that_a_later_verify_expects(run, path):
    ledger = Ledger(path)
    release = ledger.reserve("sales", 1)
    ledger.fix(release.id, CHEAP)
    code, output, _ = run("verify", path)
    assert code == 0
    told = dict(line.split(maxsplit=1) for line in output.splitlines())
    assert told["holds"] == "datasets 1, releases 1, later batches 0"
    assert (told["proven"], told["entries"]) == ("mechanisms 1, each within its charge", "3")
    ledger.commit(release.id)
    code, output, _ = run("verify", path, "--expect", f" {told['head'].upper()} \n", "--json")
    assert code == 0
    checked = json.loads(output)
    assert (checked["intact"], checked["entries"], checked["expected_at"]) == (True, 4, 3)
    assert checked["head"] == ledger.verify().head


def test_verify_exits_with_3_and_names_the_first_bad_entry(run, path):
    noted = Ledger(path).verify().head
    with closing(sqlite3.connect(path, isolation_level=None)) as owner:
        (trigger,) = owner.execute("SELECT sql FROM sqlite_master WHERE name = 'budget_kept'").fetchone()
        owner.execute("DROP TRIGGER budget_kept")
        owner.execute("UPDATE dataset SET budget = '100'")
        owner.execute(trigger)
    code, output, errors = run("verify", path)
    assert (code, output) == (3, "")
    assert "(journal entry 1): the dataset 'sales' has another budget" in errors
    Path(path).unlink()
    Ledger.create(path).add_dataset("other", budget=3)
    code, output, errors = run("verify", path, "--expect", noted)
    assert (code, output) == (3, "")
    assert "older copy" in errors


def test_an_expected_head_that_is_no_hash_is_bad_usage(run, path):
    code, output, errors = run("verify", path, "--expect", "latest")
    assert (code, output) == (2, "")
    assert "64 hexadecimal digits" in errors
