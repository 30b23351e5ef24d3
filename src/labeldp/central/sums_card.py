"""The privacy card of noisy sums: what they promise, in plain words."""

from collections.abc import Sequence
from importlib.metadata import version

import numpy as np

from labeldp.budget import exp_upper, rounded_up
from labeldp.central.answer import Answer
from labeldp.central.sums_proof import SumsProof
from labeldp.domain import Domain
from labeldp.formatting import count_of

_WHAT = {
    "histogram": "counts of labels in {} equal parts of the bounds",
    "cells": "sums of labels over {} cells of records",
    "signs": "sums of labels against {} columns of signs",
}


def card_text(domain: Domain, records: int, answers: Sequence[Answer], proof: SumsProof) -> str:
    """The card in Markdown. It depends on what is public only."""
    claimed = proof.epsilon_claimed
    costs = "\n".join(f"- {rounded_up(answer.epsilon_exact)} paid for {_what(answer, domain)}." for answer in answers)
    verdict = "are proven to cost" if proof.holds else "do NOT keep the promise: they cost"
    unit = "" if domain.unit is None else f" {domain.unit}"
    single = single_text(*cells_in(answers))
    return f"""# What these sums reveal about a label

These are noisy sums of {count_of(records, "label")} between {domain.lower:g} and {domain.upper:g}{unit}. All of them together are **ε-label
differentially private with ε = {rounded_up(claimed)}**: whatever anybody computes from them, replacing one record's label by any
other valid label changes the probability of any outcome by a factor of at most e^ε = {rounded_up(exp_upper(claimed), 4)}.

## What is protected

One label of one record, against readers who know everything else: the other labels, all features, and which records were
summed. Neighbouring data sets differ by replacing one label ("replace-one").

ε splits as follows:

{costs or "- Nothing was asked."}

Each cost is the most by which one label changes the exact sums, divided by the scale of the noise, as fractions. Together they
{verdict} {rounded_up(proof.total)} (`PrivateSums.proof()` repeats this).
{f"{chr(10)}{single}.{chr(10)}" if single else ""}
## What is not protected

- **The features, and which records exist.** The number of records in each cell and the sums of signs are here as they are.
- What can be inferred about a label from features, from the labels of other records, or from general knowledge.
- **Several rows of one person cost ε each.** If a person has m rows, the guarantee for that person is m·ε.
- That the data were valid: the guarantee is over data sets of valid labels. Labels outside the public bounds were moved to
  the nearest bound. A release may be refused if labels are invalid or too many of them lie outside the bounds, so that this
  release exists reveals that it was not refused.

## What the guarantee rests on

- Cells, signs and clips were made from features, public numbers and earlier sums in this list. Had they depended on labels in
  any other way, the guarantee would not hold.
- The noise was drawn once for each sum, in exact integer arithmetic, by OpenDP's sampler of integer Laplace noise and with random
  bits of the operating system and of the generator that OpenDP seeds with them.

Written by labeldp {version("labeldp")}.
"""


def cells_in(answers: Sequence[Answer]) -> tuple[int, int]:
    """How many cells of all answers hold a single record, and how many cells there are."""
    counts = [answer.counts for answer in answers if answer.kind == "cells"]
    return sum(int(np.count_nonzero(one == 1)) for one in counts), sum(one.size for one in counts)


def single_text(single: int, cells: int) -> str:
    """What cells of a single record mean, or nothing if there are none."""
    if not single:
        return ""
    verb = "holds" if single == 1 else "hold"
    return f"{single:,} of {cells:,} cells {verb} a single record: the sum there is a noisy label of that record"


def _what(answer: Answer, domain: Domain) -> str:
    what = _WHAT[answer.kind].format(f"{answer.values.size:,}")
    if len(answer.sizes) > 1:
        what += f" in {len(answer.sizes)} partitions"
    if answer.kind == "histogram" or answer.clip == (0, domain.count - 1):
        return what
    low, high = (domain.lower + end * domain.step for end in answer.clip)
    return f"{what}, clipped to {low:.6g} … {high:.6g}"
