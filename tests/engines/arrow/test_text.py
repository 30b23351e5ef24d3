"""CSV and TSV as people have them: marks, quotes, encodings, damage, ids that look like numbers."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

from labeldp.engines.arrow import source
from labeldp.engines.arrow.source import LabelSource
from labeldp.errors import InvalidInput
from labeldp.tables import csv_text


@pytest.fixture
def ids_of(tmp_path):
    def read(content: bytes, name: str = "a.csv", **options):
        (tmp_path / name).write_bytes(content)
        batches = list(LabelSource(tmp_path / name, "y", "id", **options).batches())
        return [value for batch in batches for value in batch.ids.to_pylist()]

    return read


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(csv_text, "LABEL_BLOCK_BYTES", 1000)


def test_a_byte_order_mark_is_no_part_of_the_first_name(ids_of):
    assert ids_of(b"\xef\xbb\xbfid,y\n1,2\n") == [1]


@pytest.mark.usefixtures("small_blocks")
def test_quoted_newlines_and_delimiters_may_cross_blocks(ids_of):
    rows = b"".join(b'%d,"a\nb,4\n""5""",%d\n' % (i, i % 50) for i in range(3000))
    assert ids_of(b"id,note,y\n" + rows) == list(range(3000))


def test_an_empty_line_in_a_file_of_labels_alone_is_a_missing_label(tmp_path):
    """To leave it out would number all later records wrongly, and the number of records would show how many are missing."""
    (tmp_path / "a.csv").write_bytes(b"y\n1\n\n3\n")
    with pytest.raises(InvalidInput, match=r"missing.* row 2 "):
        list(LabelSource(tmp_path / "a.csv", "y").batches())


def test_an_empty_line_between_columns_is_no_record(ids_of):
    assert ids_of(b"id,y\n1,2\n\n2,3\n\n") == [1, 2]


def test_tabs_and_gzip(ids_of):
    assert ids_of(gzip.compress(b"id\ty\n1\t2\n") + gzip.compress(b"2\t3\n"), "a.tsv.gz") == [1, 2]


@pytest.mark.parametrize("first", ["007", "+7", "7.0", "1e3", "true", "NA", "9223372036854775808", " 7"])
def test_ids_that_an_integer_would_not_give_back_stay_text(ids_of, first):
    assert ids_of(f"id,y\n{first},2\n8,3\n".encode()) == [first, "8"]


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("deciding", [1000, 300])
def test_a_later_id_of_another_kind_is_refused_by_row_and_read_as_text_when_told(ids_of, deciding, monkeypatch):
    monkeypatch.setattr(source, "DECIDING_ROWS", deciding)
    content = b"id,y\n" + b"".join(b"%d,1\n" % i for i in range(1000)) + b"007,1\n"
    with pytest.raises(InvalidInput, match=r"the id in row 1001 .*--id-type str"):
        ids_of(content)
    assert ids_of(content, id_type="str")[-2:] == ["999", "007"]
    monkeypatch.setattr(source, "DECIDING_ROWS", 1001)
    assert ids_of(content)[-2:] == ["999", "007"]


@pytest.mark.usefixtures("small_blocks")
def test_text_ids_may_go_on_as_digits(ids_of):
    content = b"id,y\nfirst,1\n" + b"".join(b"%d,1\n" % i for i in range(1000))
    assert ids_of(content)[-1] == "999"


def test_ids_that_should_be_integers_and_are_not(ids_of):
    with pytest.raises(InvalidInput, match="the id in row 2 "):
        ids_of(b"id,y\n1,1\nb,2\n", id_type="int")


@pytest.mark.parametrize("field", [b"", b'""'])
def test_an_empty_field_is_no_id(ids_of, field):
    with pytest.raises(InvalidInput, match="no id in row 2 "):
        ids_of(b"id,y\na,1\n" + field + b",2\n")


def test_bytes_that_are_not_text_matter_only_in_the_ids(ids_of):
    assert ids_of(b"id,note,y\n1,caf\xe9,2\n") == [1]
    with pytest.raises(InvalidInput, match="save the file as UTF-8"):
        ids_of(b"id,note,y\ncaf\xe9,x,2\n")


PACKED = gzip.compress(b"id,y\n" + b"".join(b"%d,%d\n" % (i, i * i % 53) for i in range(10_000)), mtime=0)


@pytest.mark.parametrize("keep", [0, 5, len(PACKED) // 2, -1])
def test_truncated_gzip_is_refused(ids_of, keep):
    with pytest.raises(InvalidInput, match=r"cannot read .*complete|empty"):
        ids_of(PACKED[:keep], "a.csv.gz")


@pytest.mark.parametrize("place", [20, len(PACKED) // 2, -6])
def test_damaged_gzip_is_refused(ids_of, place):
    whole = bytearray(PACKED)
    whole[place] ^= 0xFF
    with pytest.raises(InvalidInput, match="cannot read"):
        ids_of(bytes(whole), "a.csv.gz")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "header line"),
        (b"id,y\n", "no records"),
        (b"id,y\n1,2\n3,4,5\n", "columns of the header line"),
        (b"id,y\n1,two\n", "numbers only"),
        (b'id,y\n1,"2,5"\n', "--decimal"),
        (b"id,y\n1,\n", r"1 missing value in row 1 "),
        (b"id,y\n1,2\n2,inf\n", "infinity in row 2 "),
        (b"id,y,y\n1,2,3\n", "2 columns named 'y'"),
        (b"id,yd,other\n1,2,3\n", r"Did you mean 'yd'\?$"),  # the id column is taken, however alike
    ],
)
def test_what_is_wrong_is_said(ids_of, content, said):
    with pytest.raises(InvalidInput, match=said):
        ids_of(content)


@pytest.mark.usefixtures("small_blocks")
def test_a_quotation_mark_that_is_never_closed(ids_of):
    rows = b"".join(b"%d,2\n" % i for i in range(1000))
    with pytest.raises(InvalidInput, match="cannot read"):
        ids_of(b'id,y\n"' + rows)


def test_labels_are_the_numbers_that_stand_there(tmp_path):
    (tmp_path / "a.csv").write_text("y\n1\n2.5\n-3e2\n")
    (batch,) = LabelSource(tmp_path / "a.csv", "y").batches()
    assert np.array_equal(batch.labels, [1.0, 2.5, -300.0])
    assert batch.ids.to_pylist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("name", "sign", "pack"),
    [("a.csv", ",", True), ("a.csv", ";", False), ("a.tsv", "\t", False), ("a.txt", "|", True), ("a.tsv", ",", False)],
)
def test_the_header_line_shows_the_delimiter(ids_of, name, sign, pack):
    content = sign.join(["id", '"a, b"', "y"]) + "\n" + sign.join(["7", "x", "2.5"]) + "\n"
    packed = gzip.compress(content.encode()) if pack else content.encode()
    assert ids_of(packed, f"{name}.gz" if pack else name) == [7]


def test_a_tie_goes_to_the_suffix(tmp_path):
    for name, sign in (("a.csv", ","), ("a.tsv", "\t")):
        (tmp_path / name).write_text("y\n1;2|3\n")
        assert csv_text.delimiter_of(tmp_path / name) == sign
    (tmp_path / "b.csv").write_text("a,b;y\n")
    assert csv_text.delimiter_of(tmp_path / "b.csv") == ","


def test_nothing_but_the_header_line_decides(tmp_path):
    for rows in ("1;2\n", "1,5;2,5;3;4;5\n", "|||||||\n", ""):
        (tmp_path / "a.csv").write_text("id,y\n" + rows)
        assert csv_text.delimiter_of(tmp_path / "a.csv") == ","


@pytest.mark.parametrize("wrong", ["::", '"', "ä", 7])
def test_what_cannot_be_a_delimiter_is_refused_at_once(wrong):
    with pytest.raises(InvalidInput, match="one character"):
        LabelSource("a.csv", "y", delimiter=wrong)


def test_a_decimal_comma_is_named(ids_of):
    with pytest.raises(InvalidInput, match="decimal comma splits a number"):
        ids_of(b"id,y\n1,2,5\n")


@pytest.mark.parametrize("pack", [False, True])
@pytest.mark.parametrize(
    ("content", "records"),
    [
        (b"id,y\n1,2\n3,4\n", 2),
        (b"id,y\r\n1,2\r\n\r\n3,4\r\n\r\n", 2),
        (b"\n\nid,y\n\n1,2\n3,4", 2),
        (b'id,y\n"1\n\n5",2\n"a ""b""\n",4\n', 2),
        (b"id,y\n", 0),
        (b"", 0),
        (b"id,note,y\n" + b'1,"x\ny",2\n' * 300_000, 300_000),  # several blocks
    ],
    ids=["lines", "empty lines", "no last line break", "quoted line breaks", "header only", "empty file", "blocks"],
)
def test_records_are_counted_without_parsing(tmp_path, content, records, pack):
    path = tmp_path / ("a.csv.gz" if pack else "a.csv")
    path.write_bytes(gzip.compress(content) if pack else content)
    assert csv_text.count_lines(path) == records
