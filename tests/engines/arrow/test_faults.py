"""One report lists all faults of an input, by the lines or rows that a spreadsheet shows."""

from __future__ import annotations

import gzip

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp import Domain, LabelRandomizer, LabelSource, Ledger, Message, privatize
from labeldp.engines.arrow import input_report, source
from labeldp.engines.arrow.arrow_input import ArrowInput
from labeldp.errors import InvalidInput
from labeldp.tables import csv_text

HEADER = 1
SECRET = "77123"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def lines(count=60):
    """Good lines: the first is line 2 of the file."""
    return [f"{number};{number % 40}.5" for number in range(count)]


def faulty():
    """A file with one fault of each kind, and its lines. A blank line and a line break in quotes do not shift them."""
    content = lines()
    content[3] = ""  # line 5
    content[4] = "4;3,5"  # line 6
    content[5] = '"a\nb";4.5'  # lines 7 and 8
    content[9] = "9;"  # line 12, as all that follow come one line later
    content[10] = f"10;{SECRET}x"
    content[20] = "7;3.0"
    content[30] = ";4"
    content[31] = f"31;{SECRET};5"
    content[40] = "40;inf"
    expected = {
        "a decimal comma": "line 6.",
        "a missing label": "line 12.",
        "not a number": "line 13.",
        "an earlier record": "line 23 (as line 10).",
        "no id": "line 33.",
        "more or fewer columns": "line 34.",
        "not finite": "line 43.",
    }
    return "id;y\n" + "\n".join(content) + "\n", expected


def refusal(name, *, domain=(0, 40), out_of_range="clip", **settings):
    settings.setdefault("id_column", "id")
    labels = ArrowInput(LabelSource(name, "y", **settings))
    with pytest.raises(InvalidInput) as refused:
        labels.scan(Domain.of(domain), key=b"k" * 32, out_of_range=out_of_range)
    return str(refused.value)


@pytest.mark.parametrize("chunk", [2, csv_text.CHUNK_LINES])
@pytest.mark.parametrize("packed", [False, True])
def test_all_faults_of_a_text_file_are_reported_with_their_lines(folder, monkeypatch, chunk, packed):
    monkeypatch.setattr(csv_text, "CHUNK_LINES", chunk)
    content, expected = faulty()
    name = "a.csv.gz" if packed else "a.csv"
    (folder / name).write_bytes(gzip.compress(content.encode(), mtime=0) if packed else content.encode())
    said = refusal(name)
    first, *listed = said.splitlines()
    assert first == f"the input has {len(expected)} faults. Nothing was released or charged:"
    for words, where in expected.items():
        (line,) = (one for one in listed if words in one)
        assert f": {where}" in line
        assert line.startswith(f"{name}: 1 record with ")
    assert SECRET not in said


def test_nothing_is_charged_and_no_label_is_shown(folder):
    (folder / "a.csv").write_text(faulty()[0])
    Ledger.create("ledger.db").add_dataset("sales", 3)
    with pytest.raises(InvalidInput, match="the input has 7 faults"):
        privatize(
            LabelSource("a.csv", "y", "id"),
            LabelRandomizer(1, (0, 40)),
            "message",
            ledger=Ledger("ledger.db"),
            dataset="sales",
        )
    assert Ledger("ledger.db").remaining("sales") == 3


def test_a_line_is_the_line_of_the_file_whatever_the_block(folder):
    rows = [f"{number}, 2.5 " for number in range(5000)]
    rows += ["5000,NA", "5001,1e3", "5002,2 5"]
    (folder / "a.csv").write_text("id,y\n" + "\n".join(rows))
    said = refusal("a.csv")
    assert f"missing label in 'y': line {HEADER + 5001}." in said
    assert f"not a number: line {HEADER + 5003}." in said


def test_rows_of_other_files_are_counted_from_one_in_each_file(folder):
    (folder / "parts").mkdir()
    pq.write_table(pa.table({"id": [1, 2, 3], "y": [1.0, None, 3.0]}), "parts/1.parquet")
    pq.write_table(pa.table({"id": [4, None, 3], "y": [1.0, 2.0, float("nan")]}), "parts/2.parquet")
    said = refusal("parts")
    assert "1.parquet: 1 record with a missing label in 'y': row 2 (rows count from 1)" in said
    assert "2.parquet: 1 record with a label in 'y' that is not finite (NaN or infinity): row 3 (" in said
    assert "2.parquet: 1 record with no id in 'id': row 2 (" in said
    assert "row 3 (as row 3 of parts/1.parquet)" in said


def test_faults_of_whole_columns_are_reported_with_those_of_records(folder):
    table = pa.table({"id": [1, None], "y": pa.array([1, 2], pa.duration("s")), "t": ["a", "b"]})
    pq.write_table(table, "a.parquet")
    said = refusal("a.parquet")
    assert "need a unit" in said
    assert "no id in 'id': row 2" in said
    pq.write_table(table.drop_columns("y").rename_columns(["id", "y"]), "b.parquet")
    assert "the label column 'y' contains string, not numbers" in refusal("b.parquet")


def test_bounds_are_judged_with_the_other_faults(folder):
    (folder / "a.csv").write_text("id,y\n1,50\n2,60\n3,\n4,1.5\n5,2\n")
    assert "more than 20% of the labels lie outside the bounds 0 to 40" in refusal("a.csv")
    said = refusal("a.csv", out_of_range="error")
    assert "2 records with a label in 'y' outside the bounds 0 to 40: line 2, line 3." in said
    assert "20%" not in said
    assert "not a whole number: line 5." in refusal("a.csv", domain=Domain.integers(0, 100))


def test_only_the_first_places_are_named_and_the_others_counted(folder):
    (folder / "a.csv").write_text("id;y\n" + "".join(f"{number};1,5\n" for number in range(1234)))
    assert (
        "1,234 records with a decimal comma in 'y': line 2, line 3, line 4 and 1,231 more. Give --decimal ,"
        in refusal("a.csv")
    )


def test_labels_with_a_decimal_comma_are_compared_with_the_bounds_in_the_same_report(folder):
    (folder / "a.csv").write_text("id;y\n1;3,5\n2;\n3;95,5\n1;2,5\n", "utf-8")
    report = refusal("a.csv", out_of_range="error")
    assert "3 records with a decimal comma in 'y': line 2, line 4, line 5. Give --decimal ," in report
    assert "missing label in 'y': line 3." in report
    assert "outside the bounds 0 to 40: line 4." in report
    assert "line 5 (as line 2)" in report
    announced = refusal("a.csv", out_of_range="error", decimal=",")
    assert [line for line in report.splitlines()[1:] if "--decimal" not in line] == announced.splitlines()[1:]


def test_a_decimal_comma_is_read_where_it_is_announced(folder):
    (folder / "a.csv").write_text('id;y\n1;2,5\n2;-3e2\n3;"4,0"\n')
    (batch,) = LabelSource("a.csv", "y", "id", decimal=",").batches()
    assert batch.labels.tolist() == [2.5, -300.0, 4.0]
    (folder / "b.csv").write_text("id;y\n1;2,5\n2;2.5\n")
    assert "not a number: line 3." in refusal("b.csv", decimal=",")
    with pytest.raises(InvalidInput, match="--decimal"):
        LabelSource("a.csv", "y", decimal=";")


def test_later_ids_of_another_kind_are_named(folder, monkeypatch):
    for module in (source, input_report):
        monkeypatch.setattr(module, "DECIDING_ROWS", 4)
    monkeypatch.setattr(csv_text, "CHUNK_LINES", 2)
    (folder / "a.csv").write_text("id,y\n" + "".join(f"{number},1\n" for number in range(6)) + "x7,1\n")
    assert "not a plain 64-bit integer: line 8." in refusal("a.csv")


def test_names_with_braces_are_shown_as_they_are(folder):
    (folder / "a.csv").write_text("{id},y\n,1\n2,2\n")
    assert "no id in '{id}': line 2." in refusal("a.csv", id_column="{id}")


@pytest.mark.parametrize("content", ["id,why\n1,\n", 'id,y\n1,\n2,"3\n', ""])
def test_a_file_that_is_damaged_or_has_other_columns_is_refused_as_before(folder, content):
    (folder / "a.csv").write_text(content)
    assert "faults" not in refusal("a.csv")


def test_good_input_is_read_without_a_report(folder, monkeypatch):
    monkeypatch.setattr(input_report, "_Report", None)
    (folder / "a.csv").write_text("id;y\n" + "\n".join(lines(400)))
    out = privatize(LabelSource("a.csv", "y", "id"), LabelRandomizer(1, (0, 40)), "message")
    assert len(Message.open(out.message)) == 400
