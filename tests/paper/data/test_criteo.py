from __future__ import annotations

import gzip
import traceback
from pathlib import Path

import numpy as np
import pytest

from labeldp.errors import InvalidInput
from labeldp.paper.data import criteo_batches, load_criteo
from labeldp.paper.data.criteo import CRITEO_SCHEMA
from labeldp.paper.data.dataset import RARE


def line(amount="-1.0", **fields):
    """One line of the log, in its format; -1 wherever nothing else is said."""
    sale = "0" if amount == "-1.0" else "1"
    row = {"Sale": sale, "SalesAmountInEuro": amount, "click_timestamp": "1601412785", "product_price": "0.0"}
    return "\t".join({**dict.fromkeys(CRITEO_SCHEMA.names, "-1"), **row, **fields}.values())


def write(path: Path, lines, end="\n"):
    path.write_bytes(("\n".join(lines) + end).encode())
    return path


def test_purchases_are_kept_clipped_and_encoded(tmp_path):
    common = [line("10.5", partner_id="AA", product_brand="-1.0", nb_clicks_1week="7")] * 5
    odd = [line("62458.773", partner_id="BB", product_title="", product_price="99.0"), line(), line("0.0")]
    data = load_criteo(write(tmp_path / "log.tsv", [*common, *odd]))
    assert data.labels.tolist() == [10.5] * 5 + [400.0, 0.0]
    assert data.features["partner_id"].to_pylist() == ["AA"] * 5 + [RARE, RARE]
    assert data.features["product_brand"].to_pylist() == ["-1"] * 7
    assert data.features["nb_clicks_1week"].to_pylist() == [7.0] * 5 + [-1.0, -1.0]
    assert data.features["product_price"].to_pylist() == [0.0] * 5 + [99.0, 0.0]
    assert "genuine" in data.description


def test_the_minimum_count_counts_purchases_only(tmp_path):
    lines = [line("5.0", user_id="U")] * 4 + [line(user_id="U")] * 9
    path = write(tmp_path / "log.tsv", lines)
    assert set(load_criteo(path).features["user_id"].to_pylist()) == {RARE}
    assert set(load_criteo(path, min_count=4).features["user_id"].to_pylist()) == {"U"}


def test_quotes_and_a_missing_final_newline_do_no_harm(tmp_path):
    path = write(tmp_path / "log.tsv", [line("1.0", product_title='a "b'), line("2.0")], end="")
    assert load_criteo(path, min_count=1).features["product_title"].to_pylist() == ['a "b', "-1"]


def test_a_compressed_log_reads_the_same(tmp_path):
    lines = [line(f"{k}.25") for k in range(50)]
    plain = load_criteo(write(tmp_path / "log.tsv", lines))
    (tmp_path / "log.tsv.gz").write_bytes(gzip.compress((tmp_path / "log.tsv").read_bytes()))
    packed = load_criteo(tmp_path / "log.tsv.gz")
    assert np.array_equal(plain.labels, packed.labels)
    assert plain.features.equals(packed.features)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([line("1.0"), line("1.0")[:40]], r"line 2: expected 23 tab-separated fields.*found 11"),
        ([line("1.0"), line("1.0") + "\tmore"], r"line 2: expected 23 .*found 24"),
        (["a,b,c"], r"line 1: expected 23 .*comma-separated"),
        (
            [line("1.0"), line("1.0"), line("ten")],
            r"line 3: field 2 \(SalesAmountInEuro\) should be a number\.$",
        ),
        ([line("1.0", nb_clicks_1week="1.5")], r"line 1: field 5 \(nb_clicks_1week\) should be a whole number"),
        ([line("1.0"), line("-3.0")], r"line 2: field 2 .*at least 0, or -1"),
        ([line("nan")], r"line 1: field 2 \(SalesAmountInEuro\) should be an amount"),
        ([line("1.0"), line("'81726'")], r"line 2: field 2 .*should be a number\.$"),
        ([line("1.0"), line("81726x")], r"line 2: field 2 .*should be a number\.$"),
        ([line("1.0"), line("1.0", Sale="2")], r"line 2: field 1 \(Sale\) should be 0 or 1$"),
        (["\t".join(CRITEO_SCHEMA.names), line("1.0")], r"line 1: field 1 .*not have a header"),
        ([line("1.0"), "", line("1.0")], r"line 2: "),
        ([line(), line()], r"no row with a sale amount"),
    ],
)
def test_a_damaged_log_is_refused_with_the_line(tmp_path, lines, words):
    path = write(tmp_path / "log.tsv", lines)
    with pytest.raises(InvalidInput, match=words) as caught:
        load_criteo(path)
    assert "81726" not in "".join(traceback.format_exception(caught.value))


def test_the_line_is_right_beyond_the_first_block(tmp_path):
    path = write(tmp_path / "log.tsv", [line("1.0", user_id="0" * 200)] * 62_000 + ["bad"])
    assert path.stat().st_size > 2 * (1 << 23)
    with pytest.raises(InvalidInput, match="line 62001"):
        load_criteo(path)
    path = write(tmp_path / "log.tsv", [line("1.0", user_id="0" * 200)] * 62_000 + [line("-2.0")])
    with pytest.raises(InvalidInput, match="line 62001"):
        load_criteo(path)


def test_empty_missing_and_cut_off_files_are_refused(tmp_path):
    (tmp_path / "empty.tsv").touch()
    with pytest.raises(InvalidInput, match="empty"):
        load_criteo(tmp_path / "empty.tsv")
    with pytest.raises(InvalidInput, match="is not a file"):
        load_criteo(tmp_path / "nothing.tsv")
    whole = gzip.compress("\n".join(line(f"{k}.0") for k in range(5000)).encode())
    (tmp_path / "cut.tsv.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InvalidInput, match="cut off"):
        load_criteo(tmp_path / "cut.tsv.gz")


def test_the_genuine_sample_loads(genuine):
    path = genuine("CriteoSearchData_sample.tsv")
    raw = [text.split("\t") for text in path.read_text().splitlines()]
    assert sum(batch.num_rows for batch in criteo_batches(path)) == len(raw) == 2822
    data = load_criteo(path)
    assert data.labels.tolist() == [min(float(r[1]), 400.0) for r in raw if float(r[1]) >= 0]
    assert data.features["product_price"].to_pylist() == [float(r[5]) for r in raw if float(r[1]) >= 0]
    brands = data.features["product_brand"].to_pylist()
    assert brands == [r[10].replace("-1.0", "-1") for r in raw if float(r[1]) >= 0]
