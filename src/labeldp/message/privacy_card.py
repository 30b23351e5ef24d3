"""`PRIVACY.md`: what a message promises, in plain words. The text depends on the mechanism and the settings only."""

from importlib.metadata import version
from pathlib import Path

from labeldp.budget import exp_upper, rounded_up
from labeldp.mechanisms import FiniteMechanism
from labeldp.message.description import Header, prior_epsilon, total_epsilon
from labeldp.message.layout import labels_path


def privacy_card_text(mechanism: FiniteMechanism, header: Header) -> str:
    """The text of `PRIVACY.md`."""
    spent, total = prior_epsilon(mechanism), total_epsilon(mechanism)
    proof = mechanism.proof()
    if spent:
        split = (
            f"- {rounded_up(spent)} paid for a noisy histogram of all labels, from which the mechanism was designed\n"
            "  and whose noisy counts are published with it;\n"
            f"- {rounded_up(mechanism.epsilon_exact)} paid for each randomized label."
        )
    else:
        split = "All of it was spent on the randomized labels; the mechanism was designed without looking at them."
    return f"""# What this message reveals about a label

The labels in `{labels_path(Path(), 0)}` were randomized before they left their owner. The whole message is **ε-label differentially
private with ε = {rounded_up(total)}**: whatever anybody computes from it, replacing one record's label by any other valid label
changes the probability of any outcome by a factor of at most e^ε = {rounded_up(exp_upper(total), 4)}.

## What is protected

One label of one record, against readers who know everything else: the other labels, all features, the mechanism.
Neighbouring data sets differ by replacing one label ("replace-one").

ε splits as follows:

{split}

The second step was proven for the very integers that were sampled: no output is more than {rounded_up(proof.ratio)} times as likely
under one label as under another (`labeldp audit` repeats the proof).

## What is not protected

- The features, which are not in this message, and **which records exist**: the ids are here as they are.{_names(header)}
- What can be inferred about a label from features, from the labels of other records, or from general knowledge.
- **Several rows of one person cost ε each.** If a person has m rows, the guarantee for that person is m·ε.
- That the data were valid: the guarantee is over data sets of valid labels. Labels outside the public bounds were moved to
  the nearest bound. A release may be refused if labels are invalid or too many of them lie outside the bounds, so that this
  release exists reveals that it was not refused.

## How the labels were randomized

Mechanism `{mechanism.kind}` with {mechanism.outputs.size} outputs, digest `{mechanism.digest}`.
{_unit(mechanism)}{_randomness(header)}
{_order(header)}

{_batches(header)}

Written by labeldp {version("labeldp")}; release `{header.release}`.
"""


def _unit(mechanism: FiniteMechanism) -> str:
    unit = None if mechanism.domain is None else mechanism.domain.unit
    return "" if unit is None else f"All numbers that represent labels are in **{unit}**.\n"


def _names(header: Header) -> str:
    name = " ".join(header.label_column.replace("`", "'").split())
    return f"\n- What the labels are called: `{name}`. So a reader notices features that are the label itself."


def _randomness(header: Header) -> str:
    kept = (
        "\nThe owner kept the key, to resume this release and to add later batches; it is as sensitive as the labels."
        if header.keyed
        else "\nThe key was drawn for this release alone and is gone."
    )
    return (
        "Each draw is a function of the record's id and the mechanism's input for its label, under a secret key (AES-256, key\n"
        f"from the operating system), so that a record has one draw and no second one.{kept}\n"
        "The guarantee is therefore computational: it assumes that AES-256 cannot be told from a random permutation."
    )


def _order(header: Header) -> str:
    if header.keep_order:
        return "**Rows are in the order of the input** (`--keep-order`). If that order followed the labels, it reveals them."
    if header.row_numbers:
        return (
            "**The ids are the row numbers of the input, so they show its order** (no `--id` was given). If that order followed\n"
            "the labels, it reveals them."
        )
    return "Rows are in an order that depends on the ids only."


def _batches(header: Header) -> str:
    if not header.keyed:
        return "No records can be added to this message."
    return (
        "Later batches of new records may be added under the same mechanism. A record keeps the private label it has, even if\n"
        "its label changes; the guarantee is the same for every record."
    )
