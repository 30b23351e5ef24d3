"""
What an ε risks
===============

An attacker knows all records but one label, and gives some chance to a fact about it, such as "she spent more than 200 euros". How much can the message
move that chance, in the worst case? Below 0.5 hardly. At 4, 50 % can become 98 %. What the other records teach about people like her is not limited.
"""

import numpy as np

from labeldp import plots
from labeldp.evaluate import Risk

before = np.linspace(0.001, 0.999, 400)
picture = plots.new_axes(5.2, 4.8)
for number, epsilon in enumerate((4, 2, 1, 0.5)):
    odds = Risk(epsilon=epsilon).odds_factor
    least, most = (before * factor / (before * factor + 1 - before) for factor in (1 / odds, odds))
    picture.fill_between(before, least, most, color=plots.CURVES[number], alpha=0.35, lw=0)
    picture.plot(before, most, color=plots.CURVES[number], lw=2, label=f"ε = {epsilon}")
    picture.plot(before, least, color=plots.CURVES[number], lw=2)
picture.plot([0, 1], [0, 1], color=plots.QUIET, ls="--", lw=1)
picture.set(xlabel="chance before the message", ylabel="chance after it", aspect="equal", xlim=(0, 1), ylim=(0, 1))
plots.tidy(picture, legend=True)
