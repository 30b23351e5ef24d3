"""`labeldp privatize`, `apply` and `score` with `--engine spark`, as typed."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.orc as pa_orc
import pyarrow.parquet as pq
import pytest

from labeldp import Message
from labeldp.errors import InvalidInput
from labeldp.release.ledger import Ledger

pytest.importorskip("pyspark", reason="Spark's tests need the extra spark: pip install 'labeldp[spark]'")

ASKED = ("--label", "amount", "--id", "order", "--epsilon", "1", "--lower", "0", "--upper", "400")
SECRET = "83.8125"


def sales(first, rows, seed=0):
    amounts = np.round(np.random.default_rng(seed).uniform(1, 399, rows), 3)
    return pa.table({"order": np.arange(first, first + rows), "amount": amounts})


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pq.write_table(sales(0, 1200), "monday.parquet")
    return tmp_path


def privatize(run, source, *more, asked=ASKED):
    return run("privatize", source, *asked, "--engine", "spark", *more)


def held(message):
    rows = Message.open(message).to_arrow()
    return dict(zip(rows["order"].to_pylist(), rows["code"].to_pylist(), strict=True))


def test_predictions_are_scored(run, spark, folder):
    pq.write_table(pa.table({"order": np.arange(1200), "guess": np.full(1200, 200.0)}), "predictions.parquet")
    Ledger.create("ledger.db").add_dataset("sales", budget=3)
    asked = ("score", "monday.parquet", *ASKED, "--predictions", "predictions.parquet", "--engine", "spark")
    code, out, err = run(*asked, "--ledger", "ledger.db", "--dataset", "sales", "--out", "score")
    assert (code, err) == (0, "")
    assert "records  1,200" in out
    assert "sales has ε = 2 left" in out
    assert run("audit", "score")[0] == 0
    code, _, err = run(*asked, "--person", "order", "--out", "other")
    assert code == 2
    assert "does not score persons yet" in err
    code, _, err = run(*asked[:-2], "--conf", "spark.master=yarn", "--out", "other")
    assert code == 2
    assert "give --engine spark too" in err


def test_a_message_of_spark_is_trained_on_audited_and_grown_by_either_engine(run, spark, folder):
    pq.write_table(sales(1000, 400, seed=1), "tuesday.parquet")
    pq.write_table(sales(1300, 300, seed=2), "wednesday.parquet")
    features = sales(0, 1600)
    pq.write_table(features.rename_columns(["order", "hint"]), "features.parquet")
    Ledger.create("ledger.db").add_dataset("sales", budget=3)
    assert run("signing-keys", "sales")[0] == 0
    budget = ("--key-file", "key", "--ledger", "ledger.db", "--sign-key", "sales-private.pem")

    code, out, err = privatize(run, "monday.parquet", *budget, "--dataset", "sales", "--out", "message")
    assert (code, err) == (0, "")
    assert "records  1,200" in out
    assert "sales has ε = 2 left" in out
    assert "labeldp train message --features FILE --id order --out MODEL --verify-key" in out
    first = held("message")

    code, out, err = run("apply", "message", "tuesday.parquet", *budget, "--engine", "spark")
    assert (code, err) == (0, "")
    assert "200 new records" in out
    assert "200 records that were there already" in out
    code, out, _ = run("apply", "message", "wednesday.parquet", *budget, "--json")
    assert code == 0
    assert (json.loads(out)["records"], json.loads(out)["already_held"]) == (200, 100)

    grown = held("message")
    assert set(grown) == set(range(1600))
    assert {order: grown[order] for order in first} == first
    assert Ledger("ledger.db").remaining("sales") == 2
    verify = ("--verify-key", "sales-public.pem")
    code, out, _ = run("train", "message", "--features", "features.parquet", "--id", "order", "--out", "m", *verify)
    assert code == 0, out
    code, out, _ = run("audit", "message/mechanism.json", "--json")
    assert (code, json.loads(out)["holds"]) == (0, True)


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_spark_chooses_the_rows_of_persons_that_arrow_does(run, spark, folder, ending):
    """One key, so both engines choose the same rows and draw the same codes. A plan counts persons without a label."""
    persons = np.random.default_rng(1).integers(0, 300, 1200)
    table = sales(0, 1200).append_column("customer", pa.array(persons))
    name = f"orders.{ending}"
    (pq.write_table if ending == "parquet" else pa_csv.write_csv)(table, name)
    shown = [
        json.loads(run("privatize", name, *ASKED, "--person", "customer", "--dry-run", "--json", "--engine", engine)[1])
        for engine in ("arrow", "spark")
    ]
    assert shown[0] == shown[1]
    for engine in ("arrow", "spark"):
        asked = ("--person", "customer", "--engine", engine, "--key-file", "key", "--out", engine)
        code, output, error = run("privatize", name, *ASKED, *asked)
        assert code == 0, error
        assert "at most 1 row of each person" in output
    assert held("spark").keys() == held("arrow").keys()
    assert len(held("spark")) == np.unique(persons).size
    assert Message.open("spark").header.persons == Message.open("arrow").header.persons


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_classes_on_either_engine(run, spark, folder, ending):
    """A later batch under one key and release, so both engines draw the same codes."""
    write = pq.write_table if ending == "parquet" else pa_csv.write_csv
    bought = np.where(np.random.default_rng(3).random(900) < 0.3, "yes", "no")
    for name, rows in (("first", slice(0, 600)), ("later", slice(600, 900)), ("wrong", slice(0, 600))):
        column = np.where(np.arange(900) == 7, "maybe", bought) if name == "wrong" else bought
        write(pa.table({"order": np.arange(900)[rows], "bought": column[rows]}), f"{name}.{ending}")
    asked = ("--label", "bought", "--id", "order", "--epsilon", "1", "--classes", "no,yes")
    code, output, error = privatize(
        run, f"first.{ending}", "--key-file", "key", "--out", "message", "--quiet", asked=asked
    )
    assert (code, error) == (0, ""), output
    for engine in ("arrow", "spark"):
        shutil.copytree("message", engine)
        shutil.copy("key", f"{engine}.key")
        code, output, error = run(
            "apply", engine, f"later.{ending}", "--key-file", f"{engine}.key", "--engine", engine, "--json"
        )
        assert (code, json.loads(output)["records"]) == (0, 300), error
    assert held("spark") == held("arrow")
    assert len(held("spark")) == 900
    code, _, error = privatize(run, f"wrong.{ending}", "--out", "other", asked=asked)
    assert (code, "Named were no, yes" in error, "maybe" in error) == (2, True, False)


def test_the_plan_reads_no_label_and_writes_nothing(run, spark, folder):
    pq.write_table(sales(0, 500).set_column(1, "amount", pa.nulls(500, pa.float64())), "no-labels.parquet")
    code, out, err = privatize(run, "no-labels.parquet", "--dry-run", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["rows"] == 500
    assert not list(folder.glob("*message*"))


def test_quiet_holds_back_how_many_labels_were_clipped(run, spark, folder):
    narrow = (*ASKED[:-1], "350")
    code, out, err = privatize(run, "monday.parquet", "--quiet", "--out", "message", asked=narrow)
    assert (code, out) == (0, "")
    assert "more than 5%" in err
    code, out, err = privatize(run, "monday.parquet", "--out", "other", asked=(*ASKED[:-1], "390"))
    assert code == 0
    assert "labels lay outside the bounds and were moved to them" in err


def test_a_stopped_run_says_how_to_go_on_and_leaves_nothing(run, spark, folder, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("labeldp.engines.spark.spark_input.SparkInput.scan", stop)
    code, _, err = privatize(run, "monday.parquet", "--out", "message", "--key-file", "key")
    assert code == 130
    assert "Run the same command again" in err
    assert not list(folder.glob("*message*"))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--conf", "spark.master=yarn"), "--conf is for Spark: give --engine spark"),
        (("--conf", "spark.a=b", "--spark-conf", "x"), "--spark-conf and --conf are for Spark"),
        (("--engine", "spark", "--keep-order"), "no order to keep"),
        (("--engine", "spark", "--conf", "spark.password"), "got 'spark.password'"),
        (("--engine", "spark", "--conf", "hunter.two=hunter2"), "got 'hunter.two'"),
        (("--engine", "spark", "--conf", "spark.a=1", "--conf", "spark.a=2"), "--conf has spark.a twice"),
        (("--engine", "spark", "--spark-conf", "nowhere.conf"), "cannot read --spark-conf nowhere.conf"),
        (("--engine", "spark", "--spark-conf", "other.conf"), "got 'hunter.two'"),
        (("--engine", "spark", "--spark-conf", "twice.conf"), "--spark-conf twice.conf has spark.a twice"),
    ],
)
def test_options_that_do_not_fit_are_refused_before_anything_starts(run, folder, options, says):
    Path("other.conf").write_text("# a comment\n\nhunter.two hunter2\n")
    Path("twice.conf").write_text("spark.a=1\nspark.a 2\n")
    code, out, err = run("privatize", "monday.parquet", *ASKED, "--out", "message", *options)
    assert (code, out) == (2, "")
    assert says in err
    assert "hunter2" not in err


def test_spark_needs_ids_and_arrow_a_file(run, folder):
    no_ids = ("--label", "amount", "--epsilon", "1", "--lower", "0", "--upper", "400")
    code, _, err = run("privatize", "monday.parquet", *no_ids, "--out", "m", "--engine", "spark")
    assert (code, "--engine spark needs --id" in err) == (2, True)
    code, _, err = run("privatize", "s3a://bucket/sales", *ASKED, "--out", "m")
    assert (code, "s3a://bucket/sales is not a file of this machine" in err) == (2, True)


def test_a_message_in_the_way_is_named_before_spark_starts(run, folder, monkeypatch):
    monkeypatch.setattr("labeldp.engines.spark.session.running", lambda *_, **__: pytest.fail("Spark was started"))
    Path("message").mkdir()
    code, _, err = run("privatize", "monday.parquet", *ASKED, "--out", "message", "--engine", "spark")
    assert (code, "message exists" in err) == (2, True)


def test_settings_of_a_session_that_runs_already_are_not_ignored_in_silence(run, spark, folder):
    code, _, err = privatize(run, "monday.parquet", "--out", "m", "--conf", "spark.driver.memory=8g")
    assert (code, "leave out --spark-conf and --conf" in err) == (2, True)


def refused(run, source, *more, says, asked=ASKED):
    code, out, err = privatize(run, source, "--out", "message", *more, asked=asked)
    assert (code, out) == (2, "")
    assert says in err
    assert SECRET not in err
    assert "Exception in" not in err
    assert not Path("message").exists()


def test_inputs_that_cannot_be_read_are_named(run, spark, folder):
    refused(run, "nothing.parquet", says="there is no file nothing.parquet")
    refused(run, "file:///nothing.parquet", says="file:///nothing.parquet: there is no such file")
    Path("empty").mkdir()
    refused(run, "empty", says="no data files")
    Path("sales.parquet").write_bytes(b"PAR1 and no more")
    refused(run, "sales.parquet", says="sales.parquet: Spark cannot reach or read it")
    Path("sales.xlsx").write_text("x")
    refused(run, "sales.xlsx", says="labeldp.spark.privatize")
    refused(run, "nobody://there/sales.parquet", says="spark.jars.packages")
    refused(run, "monday.parquet", "--delimiter", ";", says="--delimiter is for CSV")
    misspelt = ("--label", "amonut", *ASKED[2:])
    refused(run, "monday.parquet", says="Did you mean 'amount'?", asked=misspelt)


@pytest.mark.parametrize("inside", ["_delta_log", "metadata"])
def test_the_files_of_a_table_are_not_taken_for_its_rows(run, spark, folder, inside):
    Path("table", inside).mkdir(parents=True)
    pq.write_table(sales(0, 10), "table/part-0.parquet")
    refused(run, "table", says="table is a table of")


def test_a_folder_of_parts_and_names_with_any_characters(run, spark, folder):
    place = Path("a b%20[ü]*")
    place.mkdir()
    for part in range(3):
        pq.write_table(sales(100 * part, 100, seed=part), place / f"part-{part}.parquet")
    message, key = place.with_name("my message [1] {ü}"), "key"
    assert privatize(run, place, "--out", message, "--key-file", key)[0] == 0
    assert set(held(message)) == set(range(300))
    code, out, _ = run("apply", message, place, "--key-file", key, "--engine", "spark", "--json")
    assert (code, json.loads(out)["already_held"]) == (0, 300)
    assert sorted(path.name for path in folder.iterdir()) == sorted([place.name, message.name, "key", "monday.parquet"])


FILES = {
    "sales.orc": pa_orc.write_table,
    "sales.csv": pa_csv.write_csv,
    "sales.tsv": lambda rows, name: pa_csv.write_csv(rows, name, pa_csv.WriteOptions(delimiter="\t")),
    "sales.csv.gz": lambda rows, name: Path(name).write_bytes(gzip.compress(_csv(rows))),
}


def _csv(rows):
    sink = pa.BufferOutputStream()
    pa_csv.write_csv(rows, sink)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize("name", FILES)
def test_formats_go_by_the_name_of_the_file(run, spark, folder, name):
    rows = sales(-200, 400)
    FILES[name](rows, name)
    assert privatize(run, name, "--out", "message", "--key-file", "key")[0] == 0
    message = Message.open("message")
    assert set(held("message")) == set(range(-200, 200))
    assert message.header.id_type == "int"
    # The labels are the same numbers as those in Parquet: Arrow adds no record, and draws none anew.
    pq.write_table(rows, "again.parquet")
    code, out, _ = run("apply", "message", "again.parquet", "--key-file", "key", "--json")
    assert (code, json.loads(out)["already_held"]) == (0, 400)


def written(text, name="sales.csv"):
    Path(name).write_text(text, encoding="utf-8")
    return name


def test_text_is_read_by_the_rules_of_one_machine(spark, folder):
    from labeldp.engines.arrow.source import LabelSource
    from labeldp.engines.spark.frames import read_records

    lines = [
        '1, 5 ,"a, b"',
        '-7,1e2,"line\nbreak"',
        '"3",.5,"say ""hi"""',
        "9223372036854775807,-0.1,",
        "40,17.000000000000001,x",
        "50,1E-400,\\",
    ]
    name = written("\ufefforder,amount,note\n" + "\n".join(lines) + "\n")
    frame, kind = read_records(spark, name, "amount", "order", None, None)
    (batch,) = LabelSource(name, "amount", "order").batches()
    found = [(int(row["order"]), row["amount"]) for row in frame.collect()]
    assert kind == "int"
    assert found == list(zip(batch.ids.to_pylist(), batch.labels.tolist(), strict=True))


@pytest.mark.parametrize("end", ['"r1" ,5\n', 'r1,"5"\t\n'])
def test_blanks_after_a_quotation_mark_are_refused_since_the_engines_read_them_differently(spark, folder, end):
    from labeldp.engines.spark.frames import read_records

    name = written("order,amount\nr0,4\n" + end)
    with pytest.raises(InvalidInput, match=r"1 line .*blanks after a closing quotation mark"):
        read_records(spark, name, "amount", "order", None, None)


@pytest.mark.parametrize(
    ("ids", "kind"),
    [
        (["1", "-2"], "int"),
        (["1", "007"], "str"),
        (["9223372036854775808", "1"], "str"),
    ],
)
def test_ids_are_integers_if_all_are_written_so(spark, folder, ids, kind):
    from labeldp.engines.arrow.source import LabelSource
    from labeldp.engines.spark.frames import read_records

    name = written("order,amount\n" + "".join(f"{order},5\n" for order in ids))
    frame, found = read_records(spark, name, "amount", "order", None, None)
    (batch,) = LabelSource(name, "amount", "order").batches()
    assert found == kind == ("int" if pa.types.is_integer(batch.ids.type) else "str")
    assert [row["order"] for row in frame.collect()] == ids == [str(one) for one in batch.ids.to_pylist()]
    assert read_records(spark, name, "amount", "order", "str", None)[1] == "str"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f"order,amount\n1,{SECRET}\n2,{SECRET}d\n3,0x1p3\n", "2 records have something else"),
        (f"order,amount,note\n1,{SECRET},a\n2,83,8125,b\n", "1 record has more or fewer columns"),
        (f"order,amount\n1,{SECRET}\n2,\n", "'amount' is missing in 1 record"),
        (f'order,amount\n1,{SECRET}\n"",{SECRET}\n', "'order' has no id in 1 record"),
        (f"1,{SECRET}\n2,{SECRET}\n", "needs a header line"),
        (f"order;amount\n1;{SECRET}\n", "no column 'amount'"),
    ],
)
def test_text_that_is_not_understood_is_refused_without_a_value(run, spark, folder, text, says):
    refused(run, written(text), says=says)


@pytest.mark.filterwarnings("ignore::labeldp.priors.private_histogram.BudgetWarning")
def test_text_with_another_delimiter_or_encoding(run, spark, folder):
    code, out, _ = privatize(run, written("order;amount\n1;5\n2;6\n"), "--delimiter", ";", "--dry-run", "--json")
    assert (code, json.loads(out)["rows"]) == (0, 2)
    Path("sales.csv").write_bytes("order,amount\nö,5\n".encode("latin-1"))
    refused(run, "sales.csv", says="UTF-8")


def test_the_files_of_a_folder_must_have_equal_header_lines(run, spark, folder):
    Path("sales.csv").mkdir()
    written("order,amount\n1,5\n2,6\n", "sales.csv/a.csv")
    written("amount,order\n5,3\n", "sales.csv/b.csv")
    refused(run, "sales.csv", says="do all have the same header line?")


def test_a_cluster_that_can_make_its_secret_is_encrypted_unless_told_otherwise(tmp_path):
    from labeldp.engines.spark.session import ENCRYPTED, settings

    needed = {names[0] for names in ENCRYPTED.values()} | {"spark.authenticate"}
    for master in ("yarn", "k8s://https://127.0.0.1:6443"):
        chosen = settings(master, {}, tmp_path)
        assert {name for name in needed if chosen.get(name) == "true"} == needed
        assert settings(master, {"spark.authenticate": "false"}, tmp_path)["spark.authenticate"] == "false"
    assert not needed & set(settings("spark://127.0.0.1:7077", {}, tmp_path))


def test_a_session_of_this_machine_listens_to_nobody_else(tmp_path):
    from labeldp.engines.spark.session import settings

    chosen = settings("local[2]", {"spark.ui.enabled": "true"}, tmp_path)
    assert chosen["spark.driver.host"] == chosen["spark.driver.bindAddress"] == "127.0.0.1"
    assert chosen["spark.ui.enabled"] == "true"
    assert settings("local[2]", {}, tmp_path)["spark.ui.enabled"] == "false"
    assert "spark.executorEnv.NUMBA_CACHE_DIR" not in chosen  # the workers have the driver's
    cache = settings("yarn", {}, tmp_path)["spark.executorEnv.NUMBA_CACHE_DIR"]
    assert not Path(cache).is_absolute()  # a folder that others could fill with code


def test_a_file_of_settings_is_read_as_spark_does_and_options_override_it(tmp_path):
    from labeldp.engines.spark.session import parsed_settings

    file = tmp_path / "spark.conf"
    file.write_text("# ours\nspark.master   yarn\nspark.a=1\n  spark.b : x=y z \n\nspark.c=\n")
    expected = {"spark.master": "yarn", "spark.a": "2", "spark.b": "x=y z", "spark.c": ""}
    assert parsed_settings(file, ["spark.a=2"]) == expected
    assert parsed_settings(None, ["spark.a = b=c "]) == {"spark.a": "b=c"}


def test_spark_connect_is_refused(tmp_path, monkeypatch):
    from labeldp.engines.spark import session

    monkeypatch.setattr(session.SparkSession, "getActiveSession", classmethod(lambda _: None))
    for name in ("spark.master", "spark.remote"):
        given = {name: "sc://there"}
        with pytest.raises(InvalidInput, match="Spark Connect"), session.running(given, kept=lambda _: None):
            pass


def command(*arguments, **environment):
    """`labeldp` in a process of its own."""
    variables = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "PYSPARK_PYTHON")}
    return subprocess.Popen(
        [sys.executable, "-m", "labeldp", "privatize", "monday.parquet", *ASKED, *arguments],
        env=variables | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_without_java_the_error_says_which_one(folder):
    process = command("--engine", "spark", "--out", "message", PATH=str(folder))
    out, err = process.communicate(timeout=100)
    assert (process.returncode, out) == (2, "")
    assert "Java 17 or newer" in err
    assert "Traceback" not in err


def test_an_old_java_is_recognised(folder):
    java = folder / "old" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho 'java.lang.UnsupportedClassVersionError: org/apache/spark/launcher' >&2\nexit 1\n")
    java.chmod(0o755)
    process = command("--engine", "spark", "--out", "message", JAVA_HOME=str(folder / "old"), TMPDIR=str(folder))
    out, err = process.communicate(timeout=100)
    assert (process.returncode, out) == (2, "")
    assert "this one is older" in err
    assert not list(folder.glob("labeldp-spark-*"))


@pytest.mark.usefixtures("java")
def test_a_session_of_its_own_is_quiet_and_leaves_nothing(folder):
    temporary = folder / "temporary"
    temporary.mkdir()
    java = f"spark.driver.extraJavaOptions=-Djava.io.tmpdir={temporary}"
    options = ("--engine", "spark", "--conf", "spark.master=local[1]", "--conf", java, "--out", "message", "--json")
    process = command(*options, TMPDIR=str(temporary))
    out, err = process.communicate(timeout=300)
    assert (process.returncode, err) == (0, "")
    assert json.loads(out)["records"] == 1200
    assert list(temporary.iterdir()) == []
    assert sorted(path.name for path in folder.iterdir()) == ["message", "monday.parquet", "temporary"]


@pytest.mark.slow
@pytest.mark.usefixtures("java")
@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_ctrl_c_ends_java_too(folder, sent, code):
    temporary = folder / "temporary"
    temporary.mkdir()
    pq.write_table(sales(0, 2_000_000), "monday.parquet")
    process = command("--engine", "spark", "--out", "message", "--key-file", "key", TMPDIR=str(temporary))
    log = None
    while log is None and process.poll() is None:
        log = next(temporary.glob("labeldp-spark-*/local"), None)  # Spark is there
        time.sleep(0.1)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    process.send_signal(sent)
    _, err = process.communicate(timeout=100)
    assert process.returncode == code
    assert "stopped. Run the same command again" in err
    assert "Traceback" not in err
    assert children
    assert not [child for child in children if Path(f"/proc/{child}").exists()]
    assert list(temporary.glob("labeldp-spark-*")) == []
    assert not (folder / "message").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("java")
@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--conf", "spark.master=nowhere"), "spark.master=nowhere: Master must"),
        (("--conf", "spark.driver.memory=abc"), "Invalid maximum heap size: -Xmxabc"),
    ],
)
def test_why_spark_does_not_start_is_said_in_one_line(folder, options, says):
    process = command("--engine", "spark", "--out", "message", *options, TMPDIR=str(folder))
    _, err = process.communicate(timeout=200)
    assert process.returncode == 2
    assert says in err
    log = next(folder.glob("labeldp-spark-*/spark.log"))
    assert f"note: Spark's log is in {log}" in err
    assert err.count("\n") == 2
