"""Numbers in text: what a person types is read, what only Python reads is refused."""

from __future__ import annotations

from fractions import Fraction

import pytest

from labeldp.budget import exact_epsilon, parse_amount
from labeldp.errors import InvalidInput
from labeldp.formatting import plain_number, whole_number
from labeldp.losses import get_loss
from labeldp.priors import Prior
from labeldp.release.ledger import exact_budget

FOREIGN = ["１", "1_0", "½"]
"""Texts that Python's float, int or Fraction read, or nearly do."""


@pytest.mark.parametrize(
    ("text", "value"), [("0", 0), ("-2.5", -2.5), ("+.5", 0.5), (" 7. ", 7), ("1e-3", 0.001), ("9" * 100, 1e100)]
)
def test_a_number_in_plain_digits_is_read(text, value):
    assert plain_number(text, "it") == pytest.approx(value)


@pytest.mark.parametrize(
    "text", [*FOREIGN, "", "inf", "-nan", "1e999", "1e1000000", "0x1", "1,5", "1 0", "9" * 101, None]
)
def test_any_other_text_is_no_number(text):
    with pytest.raises(InvalidInput, match="--lower must be a finite number"):
        plain_number(text, "--lower")


@pytest.mark.parametrize(("text", "value"), [("0", 0), ("-52", -52), ("+007", 7), (" 1\t", 1)])
def test_a_whole_number_in_plain_digits_is_read(text, value):
    assert whole_number(text, "it") == value


@pytest.mark.parametrize("text", [*FOREIGN, "", "1.0", "1e3", "0x1", "9" * 5000, None])
def test_any_other_text_is_no_whole_number(text):
    with pytest.raises(InvalidInput, match="--cells must be a whole number"):
        whole_number(text, "--cells")


@pytest.mark.parametrize("text", FOREIGN)
@pytest.mark.parametrize("read", [parse_amount, exact_epsilon, exact_budget])
def test_every_amount_goes_through_the_same_strict_reader(read, text):
    assert read("1/4") == read(" 0.25 ") == Fraction(1, 4)
    with pytest.raises(InvalidInput):
        read(text)


@pytest.mark.parametrize("text", FOREIGN)
@pytest.mark.parametrize("column", ["value", "mass", "epsilon"])
def test_a_prior_in_a_file_has_plain_numbers(tmp_path, column, text):
    row = {"value": "1", "mass": "2", "epsilon": "0.5"} | {column: text}
    path = tmp_path / "prior.csv"
    path.write_text(f"value,mass,epsilon\n0,1,0.5\n{','.join(row.values())}\n", encoding="utf-8")
    with pytest.raises(InvalidInput, match="line 3"):
        Prior.from_csv(path)


@pytest.mark.parametrize("text", ["pinball(0.９)", "pinball(0_0.5)", "huber(inf)", "tweedie(1_1)"])
def test_a_loss_has_plain_numbers(text):
    with pytest.raises(InvalidInput):
        get_loss(text)
