"""What all commands print with: tables that are never cut, and lists that are written with commas."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from labeldp.cli import console
from labeldp.cli.options import comma_list
from labeldp.errors import InvalidInput

HEAD, ROWS = ["ε", *(f"method {i}" for i in range(9))], [["0.05", *["128,000,000"] * 9]]


def test_columns_that_do_not_fit_go_below_in_groups():
    assert list(console.column_parts(HEAD, ROWS, 60, 3)) == [[1, 2, 3], [4, 5, 6], [7, 8, 9]]
    assert list(console.column_parts(HEAD, ROWS, 240, 3)) == [list(range(1, 10))]


def printed(monkeypatch, *table, width=60, **options):
    screen = io.StringIO()
    monkeypatch.setattr(console, "out", Console(file=screen, force_terminal=True, width=width, color_system=None))
    console.print_table(*table, **options)
    return screen.getvalue()


def test_a_narrow_terminal_shows_every_cell_whole_and_the_first_column_with_each_part(monkeypatch):
    text = printed(monkeypatch, "errors", HEAD, ROWS, together=3)
    assert text.count("128,000,000") == 9
    assert text.count("0.05") == 3
    assert max(map(len, text.splitlines())) <= 60


def test_rows_without_a_first_cell_stay_with_the_row_above(monkeypatch):
    rows = [["laplace", "1"], ["", "2"], ["[red]", "1"], ["", "2"]]
    lines = printed(monkeypatch, "errors", ["mechanism", "ε"], rows, left=[0]).splitlines()
    shown = [line.split() for line in lines]
    first = shown.index(["laplace", "1"])
    assert shown[first:] == [["laplace", "1"], ["2"], [], ["[red]", "1"], ["2"], []]


@pytest.mark.parametrize(("text", "values"), [(None, []), ("a", ["a"]), (" a, b,,c ,", ["a", "b", "c"])])
def test_a_list_is_written_with_commas(text, values):
    assert comma_list(text) == values


@pytest.mark.parametrize("text", ["", " , "])
def test_a_list_without_values_is_refused(text):
    with pytest.raises(InvalidInput, match="at least one value"):
        comma_list(text)


def test_json_has_null_for_what_is_no_number(capsys):
    console.print_json({"a": [1.5, float("inf")], "b": (float("nan"), None)})
    captured = capsys.readouterr()
    assert captured.out.split() == ["{", '"a":', "[", "1.5,", "null", "],", '"b":', "[", "null,", "null", "]", "}"]
    assert "null" in captured.err
    console.print_json({"a": (1.0, 2)})
    assert capsys.readouterr().err == ""
