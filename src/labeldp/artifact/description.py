"""The two texts of a message: `mechanism.json`, the public description of its mechanism and release, and `PRIVACY.md`, its card."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path

from labeldp.artifact.manifest import RELEASE_ID, exact_text, installed_version
from labeldp.budget import decimal_text, exp_upper, rounded_up
from labeldp.errors import InvalidInput, PrivacyRefused
from labeldp.json_text import parse_json, read_record, read_text
from labeldp.mechanisms import FiniteMechanism
from labeldp.release_kind import LABELS

NOT_PROTECTED = """\
- What can be inferred about a label from features, from the labels of other records, or from general knowledge.
- **Several rows of one person cost ε each.** If a person has m rows, the guarantee for that person is m·ε.
- That the data were valid: the guarantee is over data sets of valid labels. Labels outside the public bounds were moved to
  the nearest bound. A release may be refused if labels are invalid or too many of them lie outside the bounds, so that this
  release exists reveals that it was not refused."""
"""What no release protects, for the cards of all kinds."""
NOT_FOR_PERSONS = NOT_PROTECTED.replace(
    "**Several rows of one person cost ε each.** If a person has m rows, the guarantee for that person is m·ε.",
    "**Which rows exist and whom they belong to.** If the rows of one person carry two names in that column, they count as two persons.",
)
"""What no release protects where a person is the unit of privacy."""


def protected(known: str, *, persons: bool) -> str:
    """Return what ε is for, in words; `known` is what readers may know besides other labels."""
    if not persons:
        return (
            f"One label of one record, against readers who know everything else: the other labels, {known}.\n"
            'Neighbouring data sets differ by replacing one label ("replace-one").'
        )
    return (
        "All labels of one person together, however many rows the person has, against readers who know everything else: the labels\n"
        f"of all other persons, {known}. Neighbouring data sets differ by replacing all labels of one person."
    )


def replaced(*, persons: bool) -> str:
    """Return what neighbouring data sets differ by."""
    if persons:
        return "all labels of one person by any other valid labels"
    return "one record's label by any other valid label"


WEIGHTED = """\
A person with k rows counts as one: each of the rows has a weight of 1/k in all sums, so **the figures are means over persons**, not
over rows."""
"""What is special about sums where a person is the unit of privacy."""


@dataclass(frozen=True)
class PersonUnit:
    """The person as the unit of privacy of a message.

    Attributes
    ----------
    column : str
        The name of the column of persons in the input.
    kind : str
        What the persons are: "int" or "str".
    entries : int
        The most labels of a person that are in the message, or in all messages that share the persons.
    shared : tuple of str
        The label columns of all messages that share the persons; empty if there is only this one.
    """

    column: str
    kind: str
    entries: int
    shared: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.entries < 1:
            raise InvalidInput("the number of labels of a person is damaged")


@dataclass(frozen=True)
class Header:
    """The release in `mechanism.json`, next to the mechanism.

    Attributes
    ----------
    release : str
        The release's id: 32 hexadecimal digits.
    id_column : str
        The name of the id column.
    id_type : str
        What the ids are: "int" or "str".
    keep_order : bool
        Whether the rows are in the order of the input.
    keyed : bool
        Whether the labels party kept the key, so that later batches are possible.
    row_numbers : bool
        Whether the ids are the row numbers of the input, and so show its order.
    label_column : str
        The name of the label column, by which `train` notices a feature that is the label itself. The labels party gave
        it; it says nothing about any label.
    persons : PersonUnit or None
        Whose labels ε protects together; None if a record is the unit of privacy.
    """

    release: str
    id_column: str
    id_type: str
    keep_order: bool
    keyed: bool
    row_numbers: bool
    label_column: str
    persons: PersonUnit | None = None

    @property
    def entries(self) -> int:
        """The most labels of one record, which is 1, or of one person in the message."""
        return 1 if self.persons is None else self.persons.entries

    def __post_init__(self) -> None:
        if not RELEASE_ID.fullmatch(self.release):
            raise InvalidInput("the release's id is damaged")


def describe(mechanism: FiniteMechanism, header: Header) -> str:
    """Return the text of `mechanism.json`."""
    record = mechanism.to_record() | {
        "message": asdict(header),
        "adjacency": "replace one label" if header.persons is None else "replace all labels of one person",
        **epsilon_parts(mechanism, header.entries),
        "labeldp_version": installed_version(),
    }
    return json.dumps(record, indent=1, ensure_ascii=False) + "\n"


def read_description(file: Path) -> tuple[FiniteMechanism, Header]:
    """Return what `describe` wrote. The mechanism is proven again, and the parts of ε must add up."""
    text = read_text(file)
    try:
        record = parse_json(text, "the description")
        mechanism = FiniteMechanism.from_description(record)
        if "message" not in record:
            raise InvalidInput("it describes a mechanism but no release. Give the folder that labeldp privatize wrote")
    except InvalidInput as error:
        raise InvalidInput(f"{file}: {error}") from error
    try:
        header = read_record(Header, record["message"], "the release")
    except InvalidInput as error:
        raise InvalidInput(f"{file}: {error}. Ask for the message again") from None
    if any(record.get(name) != amount for name, amount in epsilon_parts(mechanism, header.entries).items()):
        raise InvalidInput(
            f"{file}: the parts of epsilon do not add up to epsilon_total; the message was edited. Ask for it again"
        )
    return mechanism, header


def epsilon_parts(mechanism: FiniteMechanism, entries: int = 1) -> dict[str, str]:
    """Return the cost of a message as exact text: the prior, the randomized label, and both together.

    It is that for each label, or for each person with up to `entries` labels.
    """
    amounts = {
        "epsilon_prior": prior_epsilon(mechanism),
        "epsilon_labels": mechanism.epsilon_exact,
        "epsilon_total": total_epsilon(mechanism),
    }
    return {name: exact_text(entries * amount) for name, amount in amounts.items()}


def prior_epsilon(mechanism: FiniteMechanism) -> Fraction:
    """Return the cost of the mechanism's prior; a public prior costs nothing."""
    return Fraction(0) if mechanism.prior is None else mechanism.prior.epsilon_exact


def total_epsilon(mechanism: FiniteMechanism) -> Fraction:
    """Return the cost of a message for each label: the private prior and the randomized label."""
    return prior_epsilon(mechanism) + mechanism.epsilon_exact


def check_charge(mechanism: FiniteMechanism, charged: Fraction, entries: int = 1) -> None:
    """Raise `PrivacyRefused` if a mechanism costs more, its prior and its labels together, than was charged for it.

    `entries` is the number of labels that are randomized of one person, each of which costs as much.
    """
    cost = entries * total_epsilon(mechanism)
    if cost > charged:
        raise PrivacyRefused(
            f"the mechanism costs ε = {decimal_text(cost)} with its prior, but only ε = {decimal_text(charged)} was charged for "
            "this release. Nothing may be randomized with it: charge a release of its cost"
        )


def privacy_card_text(mechanism: FiniteMechanism, header: Header) -> str:
    """Return the text of `PRIVACY.md`. It depends on the mechanism and the settings only."""
    entries = header.entries
    spent, total = entries * prior_epsilon(mechanism), entries * total_epsilon(mechanism)
    proof = mechanism.proof()
    if spent:
        split = (
            f"- {rounded_up(spent)} paid for a noisy histogram of {_histogram(header)}, from which the mechanism was designed\n"
            "  and whose noisy counts are published with it;\n"
            f"- {rounded_up(entries * mechanism.epsilon_exact)} paid for {_randomized(header)}."
        )
    else:
        split = "All of it was spent on the randomized labels; the mechanism was designed without looking at them."
    persons = header.persons is not None
    chosen = "" if header.persons is None else f"\n\n{_person(header.persons)}"
    return f"""# What this message reveals about {"a label" if header.persons is None else "a person's labels"}

The labels in `{LABELS.batch_path(Path(), 0)}` were randomized before they left their owner. The whole message is **ε-label differentially
private with ε = {rounded_up(total)}{"" if header.persons is None else " for each person"}**: whatever anybody computes from it, replacing {replaced(persons=persons)}
changes the probability of any outcome by a factor of at most e^ε = {rounded_up(exp_upper(total), 4)}.

## What is protected

{protected("all features, the mechanism", persons=persons)}{chosen}

ε splits as follows:

{split}

The second step was proven for the very integers that were sampled: no output is more than {rounded_up(proof.ratio)} times as likely
under one label as under another (`labeldp audit` repeats the proof).

## What is not protected

- The features, which are not in this message, and **which records exist**: the ids are here as they are.{_names(header)}
{NOT_FOR_PERSONS if persons else NOT_PROTECTED}

## How the labels were randomized

Mechanism `{mechanism.kind}` with {mechanism.outputs.size} outputs, digest `{mechanism.digest}`.
{_unit(mechanism)}{_randomness(header)}
{_order(header)}

{_batches(header)}

Written by labeldp {installed_version()}; release `{header.release}`.
"""


def _person(persons: PersonUnit) -> str:
    name, most = " ".join(persons.column.replace("`", "'").split()), persons.entries
    rows = "One row" if most == 1 else f"At most {most} rows"
    return f"""\
A person is a value of the column `{name}`. {rows} of each person {"was" if most == 1 else "were"} chosen by a keyed hash of person and row that no label
enters. **Rows that were not chosen are not in this message**, and nothing in it depends on their labels.{_together(persons)}"""


def _together(persons: PersonUnit) -> str:
    if not persons.shared:
        return ""
    names = ", ".join(f"`{' '.join(name.replace('`', chr(39)).split())}`" for name in persons.shared)
    return f"""

This is one of {len(persons.shared)} messages, with the labels {names}. Labels were chosen for all of them together, so **ε covers all labels of a person in
all {len(persons.shared)} messages**, and they were charged once."""


def _histogram(header: Header) -> str:
    return "all labels" if header.persons is None else "the chosen labels"


def _randomized(header: Header) -> str:
    if header.persons is None:
        return "each randomized label"
    most = header.persons.entries
    return (
        "the randomized label of each person"
        if most == 1
        else f"up to {most} randomized labels of each person, the same part for each"
    )


def _unit(mechanism: FiniteMechanism) -> str:
    domain = mechanism.domain
    if domain is not None and domain.classes is not None:
        quoted = [name.replace("`", "'") for name in domain.classes]
        named = ", ".join(f"{place} is `{name}`" for place, name in enumerate(quoted))
        return f"Labels are classes: {named}.\n"
    unit = None if domain is None else domain.unit
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
    if header.persons is not None:
        return (
            "Later batches with new persons may be added under the same mechanism. A person who is in an earlier batch gets no further\n"
            "label, so the guarantee is the same for every person."
        )
    return (
        "Later batches of new records may be added under the same mechanism. A record keeps the private label it has, even if\n"
        "its label changes; the guarantee is the same for every record."
    )
