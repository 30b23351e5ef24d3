"""What all commands print with: tables that are never cut, and lists that are written with commas."""

from __future__ import annotations

import io
import json
import signal

import pytest
import typer
from rich.console import Console
from rich.text import Text

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


HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202eok\udc80"
"""Sets the title of a terminal, clears it, colours it (with one character), and turns the text round."""

PRINTERS = {
    "line": lambda: console.line("files", HOSTILE),
    "styled line": lambda: console.line("files", Text(HOSTILE, "red")),
    "error": lambda: console.complain(HOSTILE),
    "note": lambda: console.note(HOSTILE),
    "warning": lambda: console.show_warning(UserWarning(HOSTILE)),
    "table": lambda: console.print_table(HOSTILE, ["name", HOSTILE], [[HOSTILE, Text(HOSTILE)]]),
    "text": lambda: console.out.print(HOSTILE, markup=False),
    "json": lambda: console.print_json({HOSTILE: HOSTILE}),
}


@pytest.mark.parametrize("printer", PRINTERS.values(), ids=PRINTERS)
def test_no_control_character_reaches_the_terminal(printer, capsys):
    printer()
    captured = capsys.readouterr()
    text = captured.out + captured.err
    assert "ok" in text
    assert all(sign.isprintable() for sign in text.replace("\n", ""))


def test_a_further_line_of_an_error_does_not_look_like_a_line_of_its_own(capsys):
    console.complain("no file a\nnote: all is well")
    assert capsys.readouterr().err == "error: no file a\n  note: all is well\n"


def test_json_with_control_characters_is_the_same_value(capsys):
    console.print_json({"name": HOSTILE, "face": "😀", "private use": "\U000f0000"})
    assert json.loads(capsys.readouterr().out) == {"name": HOSTILE, "face": "😀", "private use": "\U000f0000"}


def test_a_table_on_a_terminal_shows_control_characters_too(monkeypatch):
    screen = io.StringIO()
    monkeypatch.setattr(
        console, "out", console.Screen(file=screen, force_terminal=True, width=60, color_system="standard")
    )
    console.print_table("files", ["name", "kind"], [["\x1b[2Jok", "\x9b2Jok"]], bold=[0])
    assert "\\x1b[2Jok" in screen.getvalue()
    assert "\x1b[2J" not in screen.getvalue()
    assert "\x9b" not in screen.getvalue()
    assert "\x1b[1m" in screen.getvalue(), "styles still work"


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_run_that_is_stopped_says_how_to_go_on(capsys, sent, code):
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(typer.Exit) as ended, console.stoppable("Run it again"):
        signal.raise_signal(sent)
    assert ended.value.exit_code == code
    assert signal.getsignal(signal.SIGTERM) is before
    assert "stopped. Run it again" in capsys.readouterr().err
