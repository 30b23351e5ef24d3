"""cells, sums, train, predict and audit as two parties type them for one round of noisy sums."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from forgery import rewrite_manifest
from labeldp import InvalidInput, Ledger, SavedModel
from labeldp.learn.train import train as train_model

ROWS = 3000
BOUNDS = ("--lower", "0", "--upper", "400")


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Labels, features and a test file. Both parties have the same ids in another order, the labels party some more."""
    folder = tmp_path_factory.mktemp("sums")
    generator = np.random.default_rng(0)
    n = ROWS + 200
    size, shop = generator.normal(size=n), generator.choice(["a", "b", "c"], n)
    label = np.clip(120 + 40 * size + 60 * (shop == "a") + generator.normal(0, 15, n), 0, 400)
    ids = generator.permutation(10 * n)[:n]
    features = pa.table({"order": ids, "size": size, "shop": shop, "same": np.ones(n)})
    pq.write_table(features.slice(0, ROWS), folder / "features.parquet")
    pa_csv.write_csv(features.slice(0, ROWS), folder / "features.csv")
    pq.write_table(features.append_column("amount", pa.array(label)), folder / "test.parquet")
    order = generator.permutation(n)
    pq.write_table(pa.table({"order": ids[order], "amount": label[order]}), folder / "labels.parquet")
    return folder


def cells(run, world, tmp_path, *more, features="features.parquet"):
    return run("cells", world / features, "--id", "order", "--epsilon", "2", "--out", tmp_path / "cells", *more)


def sums(run, world, tmp_path, *more, labels=None, bounds=BOUNDS, sent=None):
    return run(
        "sums",
        labels or world / "labels.parquet",
        *("--label", "amount", "--id", "order", "--epsilon", "2"),
        *("--cells", sent or tmp_path / "cells" / "cells.parquet"),
        *bounds,
        *("--out", tmp_path / "sums"),
        *more,
    )


def train(run, world, tmp_path, *more, features="features.parquet", message=None):
    return run(
        "train",
        message or tmp_path / "sums",
        *("--features", world / features, "--id", "order", "--out", tmp_path / "model"),
        *more,
    )


def plan(tmp_path):
    return "--plan", tmp_path / "cells" / "plan.json"


@pytest.fixture(scope="module")
def made(world, labeldp, tmp_path_factory):
    """The folders cells and sums, to be copied."""
    place = tmp_path_factory.mktemp("made")
    for command in (cells, sums):
        assert not command(labeldp, world, place, "--quiet")
    return place


@pytest.fixture
def asked(made, tmp_path):
    """A folder with cells."""
    shutil.copytree(made / "cells", tmp_path / "cells")
    return tmp_path


@pytest.fixture
def answered(made, asked):
    """A folder with cells and sums."""
    shutil.copytree(made / "sums", asked / "sums")
    return asked


@pytest.mark.parametrize("features", ["features.parquet", "features.csv"])
def test_the_whole_round(run, world, tmp_path, features):
    code, out, err = cells(run, world, tmp_path, features=features)
    assert (code, err) == (0, "")
    assert "send " in out
    assert "something about 2 features: size, shop" in out
    code, out, err = sums(run, world, tmp_path)
    assert (code, err) == (0, "")
    assert "200 labels had no cells and were left out" in out
    code, out, err = run("audit", tmp_path / "sums")
    assert (code, err) == (0, "")
    assert "proven" in out
    assert "signature  none: nothing shows who wrote these sums" in out
    code, out, err = train(run, world, tmp_path, *plan(tmp_path), features=features)
    assert (code, err) == (0, "")
    assert "the model explains about" in out
    code, out, _ = run("evaluate", tmp_path / "model", world / "test.parquet", "--label", "amount", "--json")
    assert code == 0
    truth, told = json.loads(out)["R squared"], SavedModel.load(tmp_path / "model").facts["explained"]
    assert 0.7 < truth < 0.95
    assert told["lower"] - 0.1 < truth < told["upper"] + 0.1
    assert told["lower"] <= told["value"] <= told["upper"] <= 1
    code, _, _ = run("predict", tmp_path / "model", world / features, "--id", "order", "--out", tmp_path / "p.parquet")
    assert code == 0
    assert pq.read_table(tmp_path / "p.parquet").num_rows == ROWS


def test_durations_are_summed_in_the_unit_of_the_bounds(run, world, asked):
    labels = pq.read_table(world / "labels.parquet")
    seconds = pa.array((3600 * labels["amount"].to_numpy()).astype(int), pa.duration("s"))
    pq.write_table(labels.set_column(1, "amount", seconds), asked / "waits.parquet")
    code, _, errors = sums(run, world, asked, labels=asked / "waits.parquet")
    assert code == 2
    assert "--unit hours" in errors
    assert sums(run, world, asked, "--unit", "hours", labels=asked / "waits.parquet")[0] == 0
    assert train(run, world, asked, *plan(asked))[0] == 0
    predictions = SavedModel.load(asked / "model").predict(pq.read_table(world / "test.parquet"))
    assert predictions.mean() == pytest.approx(labels["amount"].to_numpy().mean(), rel=0.1)


def test_only_ids_and_nameless_numbers_are_sent(run, world, asked):
    sent = pq.read_table(asked / "cells" / "cells.parquet")
    assert sent.schema.names == ["order", *(f"c{place}" for place in range(sent.num_columns - 1))]
    assert all(pa.types.is_integer(kind) for kind in sent.schema.types)
    assert sent.schema.metadata is None
    assert sent["order"].to_pylist() == sorted(pq.read_table(world / "features.parquet")["order"].to_pylist())
    assert sorted(path.name for path in (asked / "cells").iterdir()) == ["cells.parquet", "plan.json"]


def test_the_answer_is_sums_ids_and_a_card(answered):
    assert sorted(path.name for path in (answered / "sums").iterdir()) == [
        "PRIVACY.md",
        "manifest.json",
        "records.parquet",
        "sums.json",
    ]
    listed = pq.read_table(answered / "sums" / "records.parquet")["order"].to_pylist()
    assert listed == pq.read_table(answered / "cells" / "cells.parquet")["order"].to_pylist()
    card = (answered / "sums" / "PRIVACY.md").read_text()
    assert "ε = 2" in card
    assert "'c0'" in card
    assert f"- **Records:** {ROWS:,}\n- **Labels:** from 0 to 400\n- **Unit of privacy:** one record" in card
    assert "**50 % becomes at most 88 %**, and at least 12 % (rounded)." in card


def test_the_order_of_ids_in_an_answer_is_that_of_no_file(run, world, asked):
    sent = pq.read_table(asked / "cells" / "cells.parquet")
    pq.write_table(sent.take(np.random.default_rng(1).permutation(ROWS)), asked / "shuffled.parquet")
    assert sums(run, world, asked, sent=asked / "shuffled.parquet")[0] == 0
    listed = pq.read_table(asked / "sums" / "records.parquet")["order"].to_pylist()
    assert listed == sorted(sent["order"].to_pylist())


def test_json_and_quiet(run, world, tmp_path):
    code, out, _ = cells(run, world, tmp_path, "--json")
    record = json.loads(out)
    assert code == 0
    assert record["records"] == ROWS
    rows = [
        tuple(row.values()) for row in pq.read_table(tmp_path / "cells" / "cells.parquet").drop(["order"]).to_pylist()
    ]
    assert record["records_told_apart"] == sum(count == 1 for count in Counter(rows).values())
    code, out, _ = sums(run, world, tmp_path, "--json")
    assert json.loads(out)["epsilon"] == "2"
    assert json.loads(run("audit", tmp_path / "sums", "--json")[1])["holds"]
    code, out, _ = train(run, world, tmp_path, *plan(tmp_path), "--json")
    assert json.loads(out)["model"] == "sums"
    shutil.rmtree(tmp_path / "sums")
    shutil.rmtree(tmp_path / "model")
    assert sums(run, world, tmp_path, "--quiet") == (0, "", "")
    assert train(run, world, tmp_path, *plan(tmp_path), "--quiet") == (0, "", "")
    shutil.rmtree(tmp_path / "cells")
    assert cells(run, world, tmp_path, "--quiet") == (0, "", "")


def test_a_dry_run_reads_no_label(run, world, asked):
    code, out, _ = sums(run, world, asked, "--dry-run", labels=asked / "not-there.parquet")
    assert code == 0
    assert "no label was read" in out
    assert not (asked / "sums").exists()
    code, out, _ = sums(run, world, asked, "--dry-run", "--json")
    assert json.loads(out)["records"] == ROWS


def test_cells_of_a_single_record_are_told(run, world, asked):
    sent = changed(asked, lambda table: table.append_column("own", pa.array([0, 5, *[1] * (ROWS - 2)])))
    planned = json.loads(sums(run, world, asked, "--dry-run", "--json", sent=sent)[1])
    assert planned["cells_in_all"] == sum(planned["cells"])
    assert planned["cells_of_one_record"] == 2
    told = f"2 of {planned['cells_in_all']:,} cells hold a single record"
    assert told in sums(run, world, asked, sent=sent)[1]
    assert told in (asked / "sums" / "PRIVACY.md").read_text()


def test_the_ledger_is_charged_and_refuses(run, world, asked):
    ledger = Ledger.create(asked / "ledger.db")
    ledger.add_dataset("sales", 3)
    charge = ("--ledger", asked / "ledger.db", "--dataset", "sales")
    code, out, _ = sums(run, world, asked, *charge)
    assert code == 0
    assert "sales has ε = 1 left" in out
    shutil.rmtree(asked / "sums")
    code, _, err = sums(run, world, asked, *charge)
    assert code == 3
    assert "error" in err
    assert not (asked / "sums").exists()
    assert ledger.remaining("sales") == 1
    assert not [path for path in asked.iterdir() if "partial" in path.name]


def test_records_without_a_label_are_refused_unless_that_is_meant(run, world, asked):
    few = pq.read_table(world / "labels.parquet").slice(0, 2500)
    pq.write_table(few, asked / "few.parquet")
    code, _, err = sums(run, world, asked, labels=asked / "few.parquet")
    assert code == 2
    assert "have no label" in err
    assert "--matching" in err
    code, out, _ = sums(run, world, asked, "--matching", labels=asked / "few.parquet")
    assert code == 0
    assert "of the cells had no label" in out
    code, out, _ = train(run, world, asked, *plan(asked))
    assert code == 0
    assert "were not summed and not used" in out
    assert SavedModel.load(asked / "model").facts["records"] < 2500


def changed(tmp_path, change):
    """The cells with one change."""
    table = pq.read_table(tmp_path / "cells" / "cells.parquet")
    pq.write_table(change(table), tmp_path / "changed.parquet")
    return tmp_path / "changed.parquet"


def column(table, name, values):
    return table.set_column(table.schema.names.index(name), name, pa.array(values))


BAD_CELLS = {
    "no columns": lambda table: table.select(["order"]),
    "no rows": lambda table: table.slice(0, 0),
    "one row": lambda table: table.slice(0, 1),
    "a null": lambda table: column(table, "c1", [None, *table["c1"].to_pylist()[1:]]),
    "a null id": lambda table: column(table, "order", [None, *table["order"].to_pylist()[1:]]),
    "an id twice": lambda table: pa.concat_tables([table, table.slice(0, 1)]),
    "text": lambda table: column(table, "c1", ["x"] * table.num_rows),
    "decimals": lambda table: column(table, "c1", [0.5] * table.num_rows),
    "NaN": lambda table: column(table, "c1", [float("nan")] * table.num_rows),
    "text ids": lambda table: column(table, "order", [f"x{value}" for value in table["order"].to_pylist()]),
    "decimal ids": lambda table: column(table, "order", [value + 0.5 for value in table["order"].to_pylist()]),
    "other ids": lambda table: column(table, "order", [-1 - value for value in table["order"].to_pylist()]),
    "a sign of 2": lambda table: column(table, "c1", [-2] * table.num_rows),
    "a huge cell": lambda table: column(table, "c1", [2**62] * table.num_rows),
    "ids last": lambda table: table.select([*table.schema.names[1:], "order"]),
    "two columns of one name": lambda table: table.append_column("c1", table["c1"]),
    "too many cells": lambda table: column(table, "c1", [10**6, *[0] * (table.num_rows - 1)]),
    "lists of ids": lambda table: column(table, "order", [[value] for value in table["order"].to_pylist()]),
}


@pytest.mark.parametrize("case", BAD_CELLS)
def test_bad_cells_are_refused_before_the_charge(run, world, asked, case):
    ledger = Ledger.create(asked / "ledger.db")
    ledger.add_dataset("sales", 3)
    charge = ("--ledger", asked / "ledger.db", "--dataset", "sales")
    code, out, err = sums(run, world, asked, *charge, sent=changed(asked, BAD_CELLS[case]))
    assert (code, out) == (2, "")
    assert err.startswith("error:")
    assert ledger.remaining("sales") == 3
    assert not (asked / "sums").exists()


BAD_LABELS = {
    "NaN": lambda table: column(table, "amount", [float("nan"), *table["amount"].to_pylist()[1:]]),
    "a null": lambda table: column(table, "amount", [None, *table["amount"].to_pylist()[1:]]),
    "text": lambda table: column(table, "amount", ["77123"] * table.num_rows),
    "all outside": lambda table: column(table, "amount", [77123.0] * table.num_rows),
    "no rows": lambda table: table.slice(0, 0),
    "an id twice": lambda table: pa.concat_tables([table, table]),
    "no id": lambda table: table.rename_columns(["other", "amount"]),
    "no label": lambda table: table.rename_columns(["order", "77123"]),
}


@pytest.mark.parametrize("case", BAD_LABELS)
def test_bad_labels_are_refused_and_not_shown(run, world, asked, case):
    pq.write_table(BAD_LABELS[case](pq.read_table(world / "labels.parquet")), asked / "bad.parquet")
    code, out, err = sums(run, world, asked, labels=asked / "bad.parquet")
    assert (code, out) == (2, "")
    assert err.startswith("error:")
    assert "77123" not in err
    assert not (asked / "sums").exists()


@pytest.mark.parametrize(
    ("more", "word"),
    [
        (("--epsilon", "0"), "epsilon"),
        (("--lower", "500"), "bound"),
        (("--integers", "0:400"), "not both"),
        (("--dataset", "sales"), "--ledger"),
        (("--cells", "not-there.parquet"), "no file"),
        (("--label", "order"), "id column"),
        (("--out", "not/there"), "does not exist"),
        (("--out", "."), "exists"),
    ],
)
def test_bad_settings_are_refused(run, world, asked, more, word):
    code, out, err = sums(run, world, asked, *more)
    assert (code, out) == (2, "")
    assert word in err


def test_whole_numbers(run, world, asked):
    table = pq.read_table(world / "labels.parquet")
    whole = column(table, "amount", np.rint(table["amount"].to_numpy()))
    pq.write_table(whole, asked / "whole.parquet")
    bounds = ("--integers", "0:400")
    assert sums(run, world, asked, labels=asked / "whole.parquet", bounds=bounds)[0] == 0
    shutil.rmtree(asked / "sums")
    code, _, err = sums(run, world, asked, bounds=bounds)
    assert code == 2
    assert "whole" in err


@pytest.mark.parametrize(
    ("more", "word"),
    [
        (("--epsilon", "0"), "epsilon"),
        (("--id", "ordr"), "Did you mean 'order'"),
        (("--exclude", "other"), "no column"),
        (("--numeric", "shop"), "shop"),
        (("--exclude", "size,shop,same"), "no column left"),
        (("--out", "."), "exists"),
        (("--id", "size"), "ids must be integers or text"),
        (("--id", "shop"), "the same id"),
    ],
)
def test_cells_refuses_what_it_cannot_use(run, world, tmp_path, more, word):
    code, out, err = cells(run, world, tmp_path, *more)
    assert (code, out) == (2, "")
    assert word in err
    assert not (tmp_path / "cells").exists()


def test_python_does_what_the_command_does(run, world, answered):
    code, out, _ = train(run, world, answered, *plan(answered))
    assert code == 0
    features, file = world / "features.parquet", plan(answered)[1]
    result = train_model(answered / "sums", features, id="order", plan=file)
    written, table = SavedModel.load(answered / "model"), pq.read_table(features)
    assert result.model.facts.items() <= written.facts.items()
    np.testing.assert_array_equal(result.model.predict(table), written.predict(table))
    assert result.verdict in out
    with pytest.raises(InvalidInput, match=r"seed \(--seed\) is for messages"):
        train_model(answered / "sums", features, id="order", plan=file, loss="squared", seed=3)


def test_train_explains_wrong_combinations(run, world, answered):
    code, _, err = train(run, world, answered)
    assert code == 2
    assert "--plan" in err
    code, _, err = train(run, world, answered, *plan(answered), "--model", "network", "--seed", "3")
    assert code == 2
    assert "model (--model) and seed (--seed) are for messages" in err
    labels = (world / "labels.parquet", "--label", "amount", "--id", "order", "--mechanism", "rr-on-bins")
    assert run("privatize", *labels, "--epsilon", "2", *BOUNDS, "--out", answered / "message")[0] == 0
    code, _, err = train(run, world, answered, *plan(answered), message=answered / "message")
    assert code == 2
    assert "leave --plan out" in err
    code, _, err = train(run, world, answered, "--plan", answered / "not-there.json")
    assert code == 2
    assert "no file" in err
    code, _, err = train(run, world, answered, "--plan", answered / "sums" / "sums.json")
    assert code == 2
    assert "does not hold a plan" in err
    assert not (answered / "model").exists()


def test_a_plan_of_other_cells_is_refused(run, world, answered):
    other = ("cells", world / "features.parquet", "--id", "order", "--epsilon", "2", "--exclude", "shop")
    run(*other, "--out", answered / "other")
    code, _, err = train(run, world, answered, "--plan", answered / "other")
    assert code == 2
    assert "answer" in err


def test_features_without_some_records_are_refused(run, world, answered):
    pq.write_table(pq.read_table(world / "features.parquet").slice(5), answered / "fewer.parquet")
    code, _, err = train(run, world, answered, *plan(answered), features=answered / "fewer.parquet")
    assert code == 2
    assert "5 records of" in err


def edit(path, change):
    record = json.loads(path.read_text())
    change(record)
    path.write_text(json.dumps(record))


DAMAGE = {
    "a cost": lambda folder: edit(folder / "sums.json", lambda record: record["answers"][1].update(epsilon="1/100")),
    "a claim": lambda folder: edit(folder / "sums.json", lambda record: record.update(epsilon="1")),
    "cut off": lambda folder: (folder / "sums.json").write_text((folder / "sums.json").read_text()[:100]),
    "no ids": lambda folder: (folder / "records.parquet").unlink(),
    "ids cut off": lambda folder: (folder / "records.parquet").write_bytes(b"PAR1"),
    "an id twice": lambda folder: pq.write_table(pa.table({"order": [7] * ROWS}), folder / "records.parquet"),
    "too few ids": lambda folder: pq.write_table(pa.table({"order": [1, 2]}), folder / "records.parquet"),
    "two columns": lambda folder: pq.write_table(
        pa.table({"order": range(ROWS), "more": range(ROWS)}), folder / "records.parquet"
    ),
    "lists": lambda folder: pq.write_table(
        pa.table({"order": [[value] for value in range(ROWS)]}), folder / "records.parquet"
    ),
}


@pytest.mark.parametrize("sealed", [False, True], ids=["as it is", "with a manifest that fits"])
@pytest.mark.parametrize("case", DAMAGE)
def test_a_damaged_answer_is_refused(run, world, answered, case, sealed):
    DAMAGE[case](answered / "sums")
    if sealed and case not in ("cut off", "no ids", "ids cut off"):
        rewrite_manifest(answered / "sums")
    for code, out, err in (run("audit", answered / "sums"), train(run, world, answered, *plan(answered))):
        assert (code, out) == (2, "")
        assert err.startswith("error:")


def test_an_answer_that_costs_more_than_it_claims_is_refused(run, answered):
    edit(answered / "sums" / "sums.json", lambda record: record.update(epsilon="1.5"))
    rewrite_manifest(answered / "sums")
    code, _, err = run("audit", answered / "sums")
    assert code == 2
    assert "not 1.5-DP" in err


def negated(record):
    for answer in record["answers"]:
        answer["values"] = [str(-int(value)) for value in answer["values"]]


def less_noise(record):
    """A scale 1000 times as large, with the cost that follows from it: the answers seem to be 1000 times as private."""
    for answer in record["answers"]:
        answer["scale"] *= 1000
        answer["epsilon"] = str(Fraction(answer["sensitivity"]) / Fraction(answer["scale"]))


def other_ids(folder):
    ids = pq.read_table(folder / "records.parquet")
    pq.write_table(column(ids, "order", ids["order"].to_numpy() + 1), folder / "records.parquet")


def link(folder):
    (folder / "records.parquet").rename(folder.parent / "records.parquet")
    (folder / "records.parquet").symlink_to(folder.parent / "records.parquet")


EDITS = {
    "values negated": lambda folder: edit(folder / "sums.json", negated),
    "another scale": lambda folder: edit(folder / "sums.json", less_noise),
    "other ids": other_ids,
    "another card": lambda folder: (folder / "PRIVACY.md").write_text("These sums reveal nothing."),
    "another file": lambda folder: (folder / "more.parquet").touch(),
    "a link": link,
}


@pytest.mark.parametrize("case", EDITS)
def test_a_possible_but_changed_answer_is_refused(run, world, answered, case):
    EDITS[case](answered / "sums")
    for code, out, err in (run("audit", answered / "sums"), train(run, world, answered, *plan(answered))):
        assert (code, out) == (2, "")
        assert err.startswith("error:")
    assert not (answered / "model").exists()


@pytest.fixture(scope="module")
def signed(world, made, labeldp, tmp_path_factory):
    """A signed answer, and the sender's keys."""
    place = tmp_path_factory.mktemp("signed")
    shutil.copytree(made / "cells", place / "cells")
    labeldp("signing-keys", place / "sender")
    labeldp("signing-keys", place / "other")
    sums(labeldp, world, place, "--sign-key", place / "sender-private.pem", "--quiet")
    return place


def test_a_signed_answer_is_verified(run, world, signed, tmp_path):
    code, out, _ = run("audit", signed / "sums", "--verify-key", signed / "sender-public.pem")
    assert code == 0
    assert "verified" in out
    verify = ("--verify-key", signed / "sender-public.pem")
    command = ("train", signed / "sums", "--features", world / "features.parquet", "--id", "order", *plan(signed))
    assert run(*command, "--out", tmp_path / "model", *verify)[0] == 0
    code, out, err = run(*command, "--out", tmp_path / "second", "--verify-key", signed / "other-public.pem")
    assert (code, out) == (2, "")
    assert "was not signed with the key" in err


@pytest.mark.parametrize("case", ["values negated", "another scale", "other ids", "another card"])
def test_an_edit_with_a_manifest_that_fits_is_refused_by_the_signature(run, signed, tmp_path, case):
    folder = shutil.copytree(signed / "sums", tmp_path / "sums")
    EDITS[case](folder)
    rewrite_manifest(folder)
    assert run("audit", folder)[0] == 0  # every file is as listed: this is what a signature is for
    code, out, err = run("audit", folder, "--verify-key", signed / "sender-public.pem")
    assert (code, out) == (2, "")
    assert "edited after it was signed" in err


def test_an_unsigned_answer_is_refused_by_who_asks_for_a_signature(run, signed, answered):
    code, _, err = run("audit", answered / "sums", "--verify-key", signed / "sender-public.pem")
    assert code == 2
    assert "is not signed" in err
