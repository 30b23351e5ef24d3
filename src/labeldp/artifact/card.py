"""`PRIVACY.md`, the card of a release: what it promises and what it does not, in plain words. All kinds of release share the template."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from labeldp.artifact.description import Header, PersonUnit, prior_epsilon, total_epsilon
from labeldp.artifact.manifest import installed_version
from labeldp.budget import exp_upper, rounded_up
from labeldp.domain import Domain
from labeldp.formatting import percent
from labeldp.mechanisms import FiniteMechanism
from labeldp.release_kind import LABELS


@dataclass(frozen=True)
class Card:
    """The fields of the card of one release. Everything here is public.

    Attributes
    ----------
    name : str
        The name of the release: "this message" or "these sums".
    intro : str
        A sentence that describes the data.
    domain : Domain or None
        The bounds of the labels.
    records : int
        The number of records.
    epsilon : Fraction
        The cost of the release.
    cost : str
        How ε is split, and the proof.
    open : str
        What else is not protected, as a Markdown list.
    rest : str
        The sections at the end.
    label : str or None
        The name of the label column, if the release shows it.
    persons : PersonUnit or None
        The unit of privacy in a message; None if it is a record.
    counted : int or None
        The number of persons in sums, if the unit of privacy is a person.
    dataset : str or None
        The dataset that was charged in the labels party's ledger.
    date, last_batch : str or None
        The dates of the release and of the newest later batch.
    release : str or None
        The release's id.
    """

    name: str
    intro: str
    domain: Domain | None
    records: int
    epsilon: Fraction
    cost: str
    open: str
    rest: str
    label: str | None = None
    persons: PersonUnit | None = None
    counted: int | None = None
    dataset: str | None = None
    date: str | None = None
    last_batch: str | None = None
    release: str | None = None

    def text(self) -> str:
        """Return the card in Markdown."""
        of_persons = self.persons is not None or self.counted is not None
        whose = "a person's labels" if of_persons else "a label"
        verb = "reveal" if self.name.startswith("these") else "reveals"
        each = " for each person" if of_persons else ""
        facts = "\n".join(f"- **{name}:** {fact}" for name, fact in self._facts())
        release = "" if self.release is None else f"; release `{self.release}`"
        factor = exp_upper(self.epsilon)  # factor on the odds, which are 1 at 50 %
        return f"""# What {self.name} {verb} about {whose}

{self.intro}

{facts}

**ε in words.** Suppose that a reader knows all other {"persons" if of_persons else "records"} and considers some statement about {whose} 50 % likely.
After reading {self.name}, **50 % becomes at most {percent(factor / (1 + factor))}**, and at least {percent(1 / (1 + factor))} (rounded).

**Exactly.** Together, all parts of the release are **ε-label differentially private with ε = {rounded_up(self.epsilon)}{each}**: replacing {"all labels of one person by any other valid labels" if of_persons else "one record's label by any other valid label"}
changes the probability of any result of any computation by a factor of at most e^ε = {rounded_up(factor, 4)}.

## What is protected

{self._protected()}

{self.cost}

## What is not protected

{self.open}
{_NOT_PROTECTED.format(_OWNERS if of_persons else _ROWS)}

{self.rest}

Written by labeldp {installed_version()}{release}.
"""

    def _facts(self) -> list[tuple[str, str]]:
        facts = [] if self.dataset is None else [("Dataset", quoted(self.dataset))]
        if self.date is not None:
            later = "" if self.last_batch is None else f", last batch added on {self.last_batch}"
            facts.append(("Date", f"{self.date}{later}"))
        facts.append(("Records", f"{self.records:,}"))
        if self.domain is not None:
            facts.append(("Labels", ("" if self.label is None else f"{quoted(self.label)}, ") + _values(self.domain)))
        elif self.label is not None:
            facts.append(("Labels", quoted(self.label)))
        unit = "one record with its label"
        if self.persons is not None:
            unit = f"one person with all labels, a value of the column {quoted(self.persons.column)}"
        elif self.counted is not None:
            unit = f"one person with all labels, of {self.counted:,} persons"
        return [*facts, ("Unit of privacy", unit)]

    def _protected(self) -> str:
        if self.persons is not None:
            return f"{_PERSON}\n\n{_chosen(self.persons)}"
        return _RECORD if self.counted is None else f"{_PERSON}\n\n{_WEIGHTED}"


def quoted(name: str) -> str:
    """Return a name as code in Markdown, on one line."""
    return f"`{' '.join(name.replace('`', chr(39)).split())}`"


def _values(domain: Domain) -> str:
    if domain.classes is not None:
        return "classes: " + ", ".join(f"{place} is {quoted(name)}" for place, name in enumerate(domain.classes))
    unit = "" if domain.unit is None else f" **{domain.unit}**"
    return f"from {domain.lower:g} to {domain.upper:g}{unit}"


_RECORD = """\
One label of one record, against readers who know everything else: all other labels, all features and predictions, and how noise was
added. Neighbouring data sets differ by replacing one label ("replace-one")."""

_PERSON = """\
All labels of one person together, however many rows the person has, against readers who know everything else: the labels of all
other persons, all features and predictions, and how noise was added. Neighbouring data sets differ by replacing all labels of one
person."""

_WEIGHTED = """\
A person with k rows counts as one: each of the rows has a weight of 1/k in all sums, so **the figures are means over persons**, not
over rows."""

_NOT_PROTECTED = """\
- What can be inferred about a label from features, from the labels of other records, or from general knowledge.
- {}
- **Other releases of the same labels.** Their ε add up with the ε of this one.
- That the data were valid. Labels outside the bounds were moved to the nearest bound. A release is refused if labels are invalid, if
  too many of them lie outside the bounds, or, for private classes, if one of the named classes does not occur. So the existence of this
  release reveals that it was not refused."""

_ROWS = "**Several rows of one person cost ε each.** If a person has m rows, the guarantee for that person is m·ε."
_OWNERS = "**Which rows exist and whom they belong to.** If the rows of one person have two names in that column, they count as two persons."


def _chosen(persons: PersonUnit) -> str:
    most = persons.entries
    rows = "One row" if most == 1 else f"At most {most} rows"
    return f"""\
{rows} of each person {"was" if most == 1 else "were"} chosen by a keyed hash of person and row that no label enters.
**Rows that were not chosen are not in this message**, and nothing in it depends on their labels.{_together(persons)}"""


def _together(persons: PersonUnit) -> str:
    if not persons.shared:
        return ""
    names = ", ".join(map(quoted, persons.shared))
    return f"""

This is one of {len(persons.shared)} messages, with the labels {names}. Labels were chosen for all of them together, so **ε covers all labels of a person in
all {len(persons.shared)} messages**, and they were charged once."""


def message_card(mechanism: FiniteMechanism, header: Header, records: int, *, last_batch: str | None = None) -> Card:
    """Return the card of a message with this number of records. It depends only on the mechanism and public facts."""
    entries = header.entries
    spent, total = entries * prior_epsilon(mechanism), entries * total_epsilon(mechanism)
    if spent:
        split = (
            "ε splits as follows:\n\n"
            f"- {rounded_up(spent)} paid for a noisy histogram of {'all' if header.persons is None else 'the chosen'} labels, from which the\n"
            "  mechanism was designed. Its noisy counts are published with the mechanism;\n"
            f"- {rounded_up(entries * mechanism.epsilon_exact)} paid for {_randomized(header)}."
        )
    else:
        split = "All of ε was spent on the randomized labels; the mechanism was designed without looking at them."
    return Card(
        "this message",
        f"The labels in `{LABELS.batch_path(Path(), 0)}` were randomized before they left their owner.",
        mechanism.domain,
        records,
        total,
        f"""{split}

The randomization was proven for the very integers that were sampled: no output is more than {rounded_up(mechanism.proof().ratio)} times as likely
under one label as under another (`labeldp audit` repeats the proof).""",
        "- The features, which are not in this message, and **which records exist**: the ids are here unchanged.\n"
        f"- The name of the labels: {quoted(header.label_column)}. It is here so that readers notice features that are the label itself.",
        f"""## How the labels were randomized

Mechanism `{mechanism.kind}` with {mechanism.outputs.size} outputs, digest `{mechanism.digest}`.
{_randomness(header)}
{_order(header)}

{_batches(header)}""",
        header.label_column,
        header.persons,
        dataset=header.dataset,
        date=header.date,
        last_batch=last_batch,
        release=header.release,
    )


def _randomized(header: Header) -> str:
    if header.persons is None:
        return "each randomized label"
    most = header.persons.entries
    return (
        "the randomized label of each person"
        if most == 1
        else f"up to {most} randomized labels of each person, the same part for each"
    )


def _randomness(header: Header) -> str:
    kept = (
        "\nThe owner kept the key, to resume this release and to add later batches; it is as sensitive as the labels."
        if header.keyed
        else "\nThe key was drawn for this release alone and is gone."
    )
    return (
        "Each draw is a function of the record's id and the mechanism's input for its label, under a secret key (AES-256, key\n"
        f"from the operating system), so each record has exactly one draw.{kept}\n"
        "The guarantee is therefore computational: it assumes that AES-256 cannot be distinguished from a random permutation."
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
    if header.persons is not None:
        return (
            "Later batches with new persons may be added under the same mechanism. A person who is in an earlier batch gets no further\n"
            "label, so the guarantee is the same for every person."
        )
    return (
        "Later batches of new records may be added under the same mechanism. A record keeps the private label it has, even if\n"
        "its label changes; the guarantee is the same for every record."
    )
