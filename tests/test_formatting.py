"""Results show themselves in a terminal, in a notebook and as a data frame."""

from __future__ import annotations

import pyarrow as pa

from labeldp.formatting import ReprMixin, Tabular, plain


class Weather(ReprMixin):
    def _facts(self):
        return {"sky": "blue", "wind < 3": "<no>"}


class Days(Tabular):
    def _facts(self):
        return {}

    def to_arrow(self):
        return pa.table({"day": [1, 2], "rain": [0.5, 0.0]})


def test_a_notebook_shows_a_captioned_table_with_names_and_texts_escaped():
    assert Weather()._repr_html_() == (
        "<table><caption>Weather</caption><tr><th>sky</th><td>blue</td></tr>"
        "<tr><th>wind &lt; 3</th><td>&lt;no&gt;</td></tr></table>"
    )


def test_rows_become_a_pandas_and_a_polars_frame():
    rows = [{"day": 1, "rain": 0.5}, {"day": 2, "rain": 0.0}]
    assert Days().to_pandas().to_dict("records") == rows
    assert Days().to_polars().to_dicts() == rows


def test_rounding_errors_have_an_exponent_and_not_a_row_of_zeros():
    assert plain(-0.000000000000000354654, 6) == "-3.54654e-16"
    assert plain(0.0000012, 4) == "0.0000012"
    assert max(len(plain(10.0**power / 3, 6)) for power in range(-30, 7)) <= 14
