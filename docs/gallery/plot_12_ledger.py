"""
A budget that runs out
======================

A `Ledger` is charged before anything is drawn, and nothing is refunded. Here a team releases the labels of a dataset several times. A release
that exceeds the budget is refused before anything is drawn.
"""

import tempfile

from labeldp import InsufficientBudget, Ledger, plots

requests = [0.5, 0.25, 0.25, 0.5, 0.1, 0.8, 0.3, 1.0, 0.3]
picture = plots.new_axes(5.2, 3.6)
with tempfile.TemporaryDirectory() as folder:
    ledger = Ledger.create(f"{folder}/ledger.db")
    ledger.add_dataset("sales", budget=3)
    spent = 0.0
    for number, epsilon in enumerate(requests, 1):
        try:
            ledger.reserve("sales", epsilon)
        except InsufficientBudget:
            picture.bar(number, epsilon, bottom=spent, fc="none", ec=plots.CURVES[0], hatch="///")
            picture.annotate("refused", (number, spent + epsilon + 0.05), ha="center", color=plots.CURVES[0])
        else:
            picture.bar(number, epsilon, bottom=spent, color=plots.CURVES[1])
            spent = 3 - float(ledger.remaining("sales"))
picture.axhline(3, color=plots.QUIET, ls="--", lw=1.5)
picture.annotate("budget", (0.5, 3.05), color=plots.QUIET)
picture.set(xlabel="release", ylabel="ε spent so far", xticks=range(1, 10), ylim=(0, 4.2))
plots.tidy(picture)
in_words = f"Bars of nine releases on top of each other, up to {spent:g} of a budget of 3. One of 1.0 is refused."
