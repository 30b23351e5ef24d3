"""`labeldp privatize` as a user meets it: what it writes and prints, what it refuses, and with which exit code."""

from __future__ import annotations

import fcntl
import gzip
import json
import os
import shutil
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

from labeldp.artifact.reader import Message
from labeldp.engines.arrow import input_report
from labeldp.engines.arrow.arrow_input import ArrowInput
from labeldp.release.ledger import Ledger

ROWS = 2000
BOUNDS = ("--lower", "0", "--upper", "400")
CHEAP = ("--mechanism", "rr-on-bins")
FULL_DISK = "No space left on device"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working folder, with a good file `sales.parquet` and a ledger that carries ε = 3."""
    monkeypatch.chdir(tmp_path)
    write("sales.parquet")
    Ledger.create("ledger.db").add_dataset("sales", 3)
    return tmp_path


def table(rows=ROWS, **columns):
    rng = np.random.default_rng(rows)
    return pa.table({"order": np.arange(rows), "amount": rng.uniform(0, 400, rows).round(2)} | columns)


def write(name, rows=ROWS, **columns):
    pq.write_table(table(rows, **columns), name)


def privatize(
    run, file="sales.parquet", *more, label="amount", ids="order", epsilon="1", bounds=BOUNDS, out="message", by=CHEAP
):
    labels = (file, "--label", label, "--id", ids, "--epsilon", epsilon, *by)
    return run("privatize", *labels, *bounds, "--out", out, *more)


LEDGER = ("--ledger", "ledger.db", "--dataset", "sales")


def listing(folder="."):
    return sorted(path.name for path in Path(folder).iterdir())


def spent():
    return Ledger("ledger.db").datasets()[0].spent


def refused(run, file, *more, says, code=2, **changes):
    """Nothing is written, charged or left behind, and standard error says what to do."""
    before = listing()
    got, output, errors = privatize(run, file, *LEDGER, "--key-file", "new.key", *more, **changes)
    assert (got, output) == (code, "")
    for text in [says] if isinstance(says, str) else says:
        assert text in errors
    assert "Traceback" not in errors
    assert listing() == before
    assert spent() == 0


def test_a_message_is_written_charged_and_explained(run, folder):
    code, output, errors = privatize(run, "sales.parquet", *LEDGER, "--key-file", "sales.key")
    assert code == 0, errors
    assert sorted(p.name for p in Path("message").iterdir()) == [
        "PRIVACY.md",
        "labels.parquet",
        "manifest.json",
        "mechanism.json",
    ]
    assert len(Message.open("message")) == ROWS
    assert spent() == 1
    assert "sales has ε = 2 left" in output
    assert "labeldp train message --features FILE --id order" in output
    assert not [name for name in listing() if name.startswith(".")]


def test_json_is_all_of_standard_output(run, folder):
    write("wide.parquet", amount=np.full(ROWS, 500.0))  # beyond the bounds: a note, on standard error
    code, output, errors = privatize(run, "wide.parquet", "--json", "--keep-order", "--out-of-range", "clip-all")
    assert code == 0
    told = json.loads(output)
    assert (told["records"], told["epsilon"], told["resumed"]) == (ROWS, "1", False)
    assert "clipped" not in told
    assert "2,000 labels lay outside" in errors
    assert "--keep-order" in errors


def test_a_message_whose_ids_are_row_numbers_says_that_it_shows_the_order(run, folder):
    """Of labels in ascending order, the ids are the ranks."""
    command = ("privatize", "sales.parquet", "--label", "amount", "--epsilon", "1", *BOUNDS)
    code, _, errors = run(*command, "--out", "numbered")
    assert code == 0
    assert "without --id a record's id is its row number, so the message shows the order of the input" in errors
    assert "their order reveals them" in errors
    card = Path("numbered/PRIVACY.md").read_text(encoding="utf-8")
    assert "The ids are the row numbers of the input, so they show its order" in card
    assert "an order that depends on the ids only" not in card
    code, _, errors = run(*command, "--id", "order", "--out", "message")
    assert (code, errors) == (0, "")
    assert "an order that depends on the ids only" in Path("message/PRIVACY.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("clipped", [3, 301, ROWS])
def test_quiet_prints_no_number_of_clipped_labels(run, folder, clipped):
    amounts = np.full(ROWS, 200.0)
    amounts[:clipped] = 500.0
    write("wide.parquet", amount=amounts)
    mode = ("--out-of-range", "clip-all" if clipped == ROWS else "clip")
    code, output, errors = privatize(run, "wide.parquet", "--quiet", *mode, "--key-file", "key")
    assert (code, output) == (0, "")
    assert errors.startswith("note: more than 5% of the labels") if clipped == 301 else errors == ""
    write("later.parquet", order=np.arange(ROWS, 2 * ROWS), amount=amounts)
    code, output, later = run(
        "apply", "message", "later.parquet", "--label", "amount", "--key-file", "key", "-q", *mode
    )
    assert (code, output, later) == (0, "", errors)
    assert not any(number in errors for number in (str(clipped), f"{clipped:,}", f"{clipped / ROWS:.1%}"))


def test_a_dry_run_reads_no_label_and_leaves_nothing(run, folder):
    write("bad.parquet", amount=np.full(ROWS, np.nan))
    before = listing()
    code, output, _ = privatize(run, "bad.parquet", "--dry-run", *LEDGER)
    assert code == 0
    assert "no label was read" in output
    assert listing() == before
    assert spent() == 0
    plan = json.loads(privatize(run, "bad.parquet", "--dry-run", "--json")[1])
    assert plan["rows"] == ROWS
    assert plan["epsilon_prior"] + plan["epsilon_labels"] == pytest.approx(1)


def test_a_plan_with_a_public_prior_is_the_release_itself(run, folder):
    Path("prior.csv").write_text("value,mass\n0,1\n100,2\n400,1\n")
    arguments = ("sales.parquet", "--prior", "prior.csv", "--json")
    plan = json.loads(privatize(run, *arguments, "--dry-run")[1])
    assert privatize(run, *arguments)[0] == 0
    mechanism = Message.open("message").mechanism
    assert plan["assumed_prior"] == "given"
    assert (plan["epsilon_prior"], plan["epsilon_labels"]) == (0, 1)
    assert plan["outputs"] == mechanism.outputs.tolist()
    assert plan["expected_loss"] == mechanism.expected_loss(mechanism.prior)


@pytest.mark.parametrize(
    ("column", "says"),
    [
        ({"label": "amuont"}, "Did you mean 'amount'?"),
        ({"ids": "ordr"}, "Did you mean 'order'"),
        ({"ids": "code"}, "rename it"),
    ],
)
def test_a_wrong_column_is_refused_with_advice(run, folder, column, says):
    write("sales.parquet", code=np.arange(ROWS))
    refused(run, "sales.parquet", says=says, **column)


def label_with(value):
    labels = np.arange(ROWS, dtype=float).tolist()
    labels[1234] = value
    return pa.array(labels, pa.float64())


@pytest.mark.parametrize(
    ("amount", "says"),
    [
        (label_with(None), ["missing", "row 1235", "Drop or repair"]),
        (label_with(float("nan")), ["not finite (NaN or infinity): row 1235 ", "Drop or repair"]),
        (label_with(float("-inf")), ["not finite (NaN or infinity): row 1235 ", "Drop or repair"]),
        (pa.array(["12.5"] * ROWS), ["not numbers", "Convert"]),
        (
            np.full(ROWS, 500.0),
            ["more than 20% of the labels lie outside the bounds 0 to 400", "--out-of-range clip-all"],
        ),
    ],
    ids=["null", "nan", "minus infinity", "text", "all outside"],
)
def test_labels_that_cannot_be_released_are_refused(run, folder, amount, says):
    write("bad.parquet", amount=amount)
    refused(run, "bad.parquet", says=says)


@pytest.mark.parametrize("kind", [int, str])
def test_duplicate_ids_are_refused_before_anything_is_charged(run, folder, kind):
    ids = [kind(number) for number in range(ROWS)]
    ids[1500] = ids[3]
    write("bad.parquet", order=pa.array(ids))
    refused(run, "bad.parquet", says=["row 1501 (as row 4)", "Remove or combine"])


def test_duplicates_in_an_input_too_large_to_test_early_are_refused_too(run, folder, monkeypatch):
    monkeypatch.setattr(input_report, "EARLY_ROWS", ROWS - 1)
    ids = np.arange(ROWS)
    ids[1500] = 3
    write("bad.parquet", order=ids)
    code, _, errors = privatize(run, "bad.parquet", *LEDGER)
    assert code == 2
    assert "ids must be unique, but rows 4 and 1501 have the same one" in errors
    assert not Path("message").exists()
    assert spent() == 1  # by then the private prior had been drawn


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("empty.csv", b"", "a header line"),
        ("header.csv", b"order,amount\n", "no records"),
        ("ragged.csv", b"order,amount\n1,2\n2,3,4\n", ["header line, which has 2: line 3", "Every row needs"]),
        ("short.csv", b"order,amount\n1,2\n2\n", ["header line, which has 2: line 3", "Every row needs"]),
        ("text.csv", b"order,amount\n1,2\n2,two\n", ["not a number: line 3", "must be numbers"]),
        ("blank.csv", b"order,amount\n1,2\n2,\n", ["missing", "Drop or repair"]),
        ("empty.parquet", b"", "complete and undamaged"),
        ("cut.csv.gz", gzip.compress(b"order,amount\n" + b"1,2\n" * 500, mtime=0)[:-20], "complete and undamaged"),
        ("what.dat", b"12345678", "name it .parquet"),
    ],
    ids=lambda value: value if isinstance(value, str) and "." in value else "",
)
def test_files_that_cannot_be_read_are_refused(run, folder, name, content, says):
    Path(name).write_bytes(content)
    refused(run, name, says=says)


def test_a_cut_empty_or_missing_parquet_file_is_refused(run, folder):
    content = Path("sales.parquet").read_bytes()
    Path("cut.parquet").write_bytes(content[: len(content) // 2])
    refused(run, "cut.parquet", says="complete and undamaged")
    write("none.parquet", 0)
    refused(run, "none.parquet", says="contains no records")
    refused(run, "nothing.parquet", says="there is no file nothing.parquet")


@pytest.mark.parametrize("epsilon", ["0", "one", "nan", "41"])
def test_an_epsilon_that_is_no_budget_is_refused(run, folder, epsilon):
    refused(run, "sales.parquet", epsilon=epsilon, says="epsilon must be")


@pytest.mark.parametrize(
    ("bounds", "says"),
    [
        (("--lower", "400", "--upper", "0"), "lower bound must be below"),
        (("--lower", "nan", "--upper", "5"), "finite"),
        (("--lower", "0"), "--lower A --upper B, or --integers A:B"),
        ((), "bounds read off the labels would reveal them"),
        (("--integers", "52:0"), "lower < upper"),
        (("--integers", "٠:٣"), "two whole numbers"),
        (("--lower", "0", "--upper", "４００"), "--upper must be a finite number"),
        ((*BOUNDS, "--cells", "1_0"), "--cells must be a whole number"),
        ((*BOUNDS, "--epsilon", "１"), "epsilon must be a positive number"),
        (("--integers", "0:5", "--upper", "9"), "not both"),
        (("--lower", "0", "--upper", "10", "--out-of-range", "error"), "Widen"),
        ((*BOUNDS, "--cells", "1000000"), ["Use at most 2,000 cells", "public prior"]),
        ((*BOUNDS, "--loss", "sqared"), "Did you mean 'squared'"),
        ((*BOUNDS, "--mechanism", "laplace"), "comparison only"),
        ((*BOUNDS, "--mechanism", "rr-on-bin"), "Did you mean 'rr-on-bins'"),
        ((*BOUNDS, "--out-of-range", "drop"), "'drop' is not one of 'clip', 'clip-all', 'error'"),
        ((*BOUNDS, "--prior", "nothing.csv"), "nothing.csv"),
    ],
)
def test_settings_that_make_no_sense_are_refused_before_anything_is_charged(run, folder, bounds, says):
    refused(run, "sales.parquet", bounds=bounds, says=says)


def test_labels_outside_the_bounds_are_refused_if_asked(run, folder):
    refused(run, "sales.parquet", "--out-of-range", "error", bounds=("--lower", "0", "--upper", "10"), says="Widen")


@pytest.mark.filterwarnings("always")
def test_many_labels_outside_are_a_warning_on_standard_error_and_nowhere_else(run, folder):
    write("wide.parquet", amount=np.where(np.arange(ROWS) < 0.2 * ROWS, 500.0, 100.0))
    code, output, errors = privatize(run, "wide.parquet", "--json")
    assert code == 0
    assert "20.0% of the labels lie outside" in errors
    assert "This share is about the true labels: keep it to yourself" in errors
    assert errors.count("outside") == 1
    assert "outside" not in output
    for file in Path("message").iterdir():
        assert b"20.0%" not in file.read_bytes()


@pytest.mark.parametrize("delimiter", [",", ";", "|", "\t"])
def test_delimiters_are_recognised_or_given(run, folder, delimiter):
    rows = [("order", "amount"), *table().to_pandas().itertuples(index=False)]
    Path("sales.csv").write_text("".join(f"{order}{delimiter}{amount}\n" for order, amount in rows))
    assert privatize(run, "sales.csv")[0] == 0
    Path("odd.csv").write_text("".join(f"{order}:{amount}\n" for order, amount in rows))
    assert privatize(run, "odd.csv", "--delimiter", ":", out="other")[0] == 0
    assert len(Message.open("message")) == len(Message.open("other")) == ROWS
    refused(run, "odd.csv", says="no column", out="third")
    refused(run, "odd.csv", "--delimiter", "::", says="one character", out="third")


def test_plain_numbers_may_have_a_unit(run, folder):
    code, output, _ = privatize(run, "sales.parquet", "--unit", "hours")
    assert (code, "hours" in output, Message.open("message").unit) == (0, True, "hours")


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_booleans_are_zeros_and_ones(run, folder, suffix):
    table = pa.table({"order": np.arange(ROWS), "paid": np.arange(ROWS) % 3 == 0})
    (pq.write_table if suffix == "parquet" else csv.write_csv)(table, f"paid.{suffix}")
    refused(run, f"paid.{suffix}", label="paid", says=["booleans", "--integers 0:1"])
    code, _, errors = privatize(run, f"paid.{suffix}", label="paid", bounds=("--integers", "0:1"))
    assert code == 0, errors
    domain = Message.open("message").mechanism.domain
    assert (domain.lower, domain.upper) == (0, 1)


def test_durations_need_a_unit_and_the_report_says_it(run, folder):
    waits = pa.array(np.arange(ROWS) * 60, pa.duration("s"))
    write("waits.parquet", wait=waits)
    refused(run, "waits.parquet", label="wait", says="--unit hours")
    refused(run, "waits.parquet", "--unit", "hrs", label="wait", says="Did you mean 'hours'")
    code, output, _ = privatize(
        run, "waits.parquet", "--unit", "hours", label="wait", bounds=("--lower", "0", "--upper", "34")
    )
    assert code == 0
    assert output.split("outputs")[1].splitlines()[0].endswith(" hours")
    assert Message.open("message").unit == "hours"


def test_an_output_that_exists_is_never_touched(run, folder):
    Path("message").mkdir()
    Path("file").write_text("mine")
    Path("link").symlink_to("nowhere")
    for out in ("message", "file", "link"):
        refused(run, "sales.parquet", out=out, says="choose another --out")
    assert Path("file").read_text() == "mine"


def test_an_output_that_cannot_be_written_is_refused_before_anything_is_charged(run, folder):
    refused(run, "sales.parquet", out="no/such/folder", says="does not exist: make it first")
    refused(run, "sales.parquet", out="/proc/message", says="cannot write")


def test_a_message_inside_the_input_folder_or_around_the_key_is_refused(run, folder):
    Path("parts").mkdir()
    shutil.copy("sales.parquet", "parts/a.parquet")
    refused(run, "parts", out="parts/message", says="choose a place outside")
    refused(run, "sales.parquet", "--key-file", "message/key", says="would be sent along")


def test_a_pipe_is_refused_because_the_input_is_read_more_than_once(run, folder):
    os.mkfifo("pipe.parquet")
    refused(run, "pipe.parquet", says="save it to")


@pytest.mark.parametrize(
    ("content", "mode", "says"),
    [
        (b"hunter2", 0o600, "not a labeldp key file"),
        (b"{}", 0o644, "chmod 600 bad.key"),
    ],
)
def test_a_wrong_short_or_open_key_file_is_refused(run, folder, content, mode, says):
    Path("bad.key").write_bytes(content)
    Path("bad.key").chmod(mode)
    refused(run, "sales.parquet", "--key-file", "bad.key", says=says)
    assert Path("bad.key").read_bytes() == content


def test_a_key_file_that_another_run_uses_is_refused(run, folder):
    with Path(".new.key.labeldp-lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        refused(run, "sales.parquet", code=1, says=["another labeldp run is using the key file", "wait"])


def test_an_exhausted_budget_is_refused_with_what_is_left(run, folder):
    refused(run, "sales.parquet", epsilon="3.5", code=3, says=["ε = 3 left", "Ask for at most 3."])


def test_a_ledger_needs_a_dataset_and_a_dataset_a_ledger(run, folder):
    code, _, errors = privatize(run, "sales.parquet", "--ledger", "ledger.db")
    assert (code, "give --dataset" in errors) == (2, True)
    code, _, errors = privatize(run, "sales.parquet", "--dataset", "sales")
    assert (code, "give --ledger" in errors) == (2, True)
    code, _, errors = privatize(run, "sales.parquet", "--ledger", "ledger.db", "--dataset", "sale")
    assert (code, "Did you mean 'sales'" in errors) == (2, True)


@pytest.fixture
def small_disk(tmp_path):
    """A mount of one megabyte; only root can make one."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip("cannot mount a small disk here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_disk_that_is_certainly_too_small_is_found_before_anything_is_charged(run, folder, small_disk):
    write("large.parquet", 200_000)
    refused(run, "large.parquet", out=small_disk / "message", says=["MB are free", "make room or choose another"])
    assert listing(small_disk) == []


def test_a_disk_that_fills_up_leaves_no_message_and_the_charge_can_be_resumed(run, folder, small_disk):
    write("large.parquet", 100_000)
    more = (*LEDGER, "--key-file", "sales.key")
    code, _, errors = privatize(run, "large.parquet", *more, out=small_disk / "message")
    assert code == 1
    assert FULL_DISK in errors
    assert "run the same command again" in errors
    assert listing(small_disk) == []
    assert spent() == 1
    code, output, _ = privatize(run, "large.parquet", *more)
    assert code == 0
    assert "nothing was charged again" in output
    assert spent() == 1


def test_a_disk_that_fills_up_without_a_key_says_that_the_charge_is_lost(run, folder, small_disk):
    write("large.parquet", 100_000)
    code, _, errors = privatize(run, "large.parquet", *LEDGER, out=small_disk / "message")
    assert (code, FULL_DISK in errors, "stays charged" in errors) == (1, True, True)


def test_a_repeated_command_finds_its_message_and_charges_nothing(run, folder):
    more = (*LEDGER, "--key-file", "sales.key")
    assert privatize(run, "sales.parquet", *more, epsilon="3")[0] == 0
    before = {p.name: p.read_bytes() for p in Path("message").iterdir()}
    code, output, _ = privatize(run, "sales.parquet", *more, epsilon="3", out="message")
    assert code == 0
    assert "nothing was charged again" in output
    assert {p.name: p.read_bytes() for p in Path("message").iterdir()} == before
    assert spent() == Fraction(3)


def test_a_repeated_command_that_asks_for_another_order_is_refused(run, folder):
    more = (*LEDGER, "--key-file", "sales.key")
    assert privatize(run, "sales.parquet", *more)[0] == 0
    code, output, errors = privatize(run, "sales.parquet", *more, "--keep-order")
    assert (code, output) == (2, "")
    assert "made with keep_order = False, but this command asks for True" in errors
    assert not Message.open("message").header.keep_order
    assert spent() == 1
    code, output, _ = privatize(run, "sales.parquet", *more)
    assert (code, "nothing was charged again" in output) == (0, True)


def test_a_repeated_command_whose_labels_have_another_name_is_refused(run, folder):
    more = (*LEDGER, "--key-file", "sales.key")
    assert privatize(run, "sales.parquet", *more)[0] == 0
    table = pq.read_table("sales.parquet")
    renamed = {"amount": "price"}
    pq.write_table(table.rename_columns([renamed.get(name, name) for name in table.column_names]), "renamed.parquet")
    code, _, errors = privatize(run, "renamed.parquet", *more, label="price")
    assert (code, "not overwritten" in errors) == (2, True)
    assert spent() == 1


@pytest.mark.parametrize(("key", "says"), [(("--key-file", "key"), "not charged again"), ((), "it stays so")])
def test_ctrl_c_leaves_nothing_and_says_how_to_go_on(run, folder, monkeypatch, key, says):
    def stop(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ArrowInput, "randomize", stop)
        code, output, errors = privatize(run, "sales.parquet", *LEDGER, *key)
    assert (code, output) == (130, "")
    assert says in errors
    assert [name for name in listing() if "message" in name] == []
    assert spent() == 1
    privatize(run, "sales.parquet", *LEDGER, *key)
    assert spent() == (1 if key else 2)


def test_the_script_itself_exits_with_the_code_of_the_error(folder):
    """In a process of its own, since everything else here runs `main` in pytest's."""
    program = [sys.executable, "-c", "from labeldp.cli import main; main()", "privatize", "sales.parquet"]
    settings = ["--label", "amount", "--epsilon", "4", *BOUNDS, "--out", "message", *LEDGER]
    ended = subprocess.run([*program, *settings], check=False, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (3, "")
    assert "ε = 3 left" in ended.stderr


@pytest.mark.parametrize(
    ("more", "kind"),
    [
        ((), "bias-variance"),
        (("--for", "labels"), "rr-on-bins"),
        (("--for", "labels", "--mechanism", "rr-on-bins"), "rr-on-bins"),
        (("--mechanism", "unbiased"), "unbiased"),
    ],
)
def test_labels_are_released_for_training_unless_another_purpose_or_mechanism_is_named(run, folder, more, kind):
    assert privatize(run, "sales.parquet", *more, epsilon="2", by=())[0] == 0
    assert Message.open("message").mechanism.kind == kind
    plan = json.loads(privatize(run, "sales.parquet", *more, "--dry-run", "--json", epsilon="2", by=())[1])
    assert (plan["mechanism"] == "auto") == (kind == "bias-variance")


@pytest.mark.parametrize(("purpose", "other"), [("training", "rr-on-bins"), ("labels", "auto")])
def test_a_purpose_chooses_the_mechanism_and_tolerates_no_other(run, folder, purpose, other):
    code, _, errors = privatize(run, "sales.parquet", "--for", purpose, "--mechanism", other, by=())
    assert code == 2
    assert f"--for {purpose} chooses" in errors
    assert not Path("message").exists()


def test_what_trains_naively_on_the_column_private_label_gets_the_values_to_train_on(run, folder):
    assert privatize(run, "sales.parquet", by=())[0] == 0
    message = Message.open("message")
    column = pq.read_table("message/labels.parquet")["private_label"].to_numpy()
    np.testing.assert_array_equal(column, message.labels.values())
