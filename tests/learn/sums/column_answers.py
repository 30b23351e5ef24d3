"""Noisy sums for columns of cells, without files."""

from labeldp.release.cells_file import CellColumns
from labeldp.release.sum_queries import SumQueries
from labeldp.release.sums import SumsPlan, ask_columns


def answer_columns(labels, columns, epsilon, domain, *, rows=None, persons=None, ledger=None, dataset=None):
    """Answer as the release does. `rows` are the places in the columns of the labels' records."""
    given = columns if isinstance(columns, CellColumns) else CellColumns.of(columns)
    queries = SumQueries(labels, epsilon, domain, persons=persons, ledger=ledger, dataset=dataset)
    plan = SumsPlan(queries.epsilon_exact, given, queries.size, queries.weight)
    plan.check(queries.domain)
    return ask_columns(queries, plan, rows)
