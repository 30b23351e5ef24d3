"""
What an ε risks
===============

An attacker knows everything but one label, and believes a claim about it, such as "she spent more than 200 euros", with some probability. How much can the message
change this probability in the worst case? At ε = 0.5, 50 % can become 62 %. At ε = 4, 50 % can become 98 %. ε does not limit what the other records reveal about people like her.
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
