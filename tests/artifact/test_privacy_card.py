"""PRIVACY.md says what is promised, what is not, and nothing that the labels decide."""

from __future__ import annotations

from dataclasses import replace

import pytest

from labeldp.artifact.card import message_card
from labeldp.artifact.description import Header, PersonUnit
from labeldp.domain import Domain
from labeldp.priors import Prior
from labeldp.release.randomizer import LabelRandomizer

HEADER = Header("ab" * 16, "order", "int", keep_order=False, keyed=True, row_numbers=False, label_column="price")
DOMAIN = Domain(0, 10, cells=11)


def card_text(mechanism, header, records=500, **more):
    return message_card(mechanism, header, records, **more).text()


@pytest.fixture(scope="module")
def private():
    return LabelRandomizer(2, DOMAIN, mechanism="rr-on-bins").fit([1.0] * 500)


def test_the_card_states_epsilon_and_how_it_splits(private):
    card = card_text(private, HEADER)
    assert "ε = 2**" in card
    assert f"{float(private.prior.epsilon_exact):.6g} paid for a noisy histogram" in card
    assert f"{float(private.epsilon_exact):.6g} paid for each randomized label" in card
    assert "e^ε = 7.39" in card


def test_the_card_rounds_up():
    card = card_text(LabelRandomizer("1.2345123", DOMAIN, prior=Prior.uniform(DOMAIN)).fit([1.0]), HEADER)
    assert "ε = 1.23452**" in card
    assert "e^ε = 3.437" in card  # 3.43670


def test_a_public_prior_costs_nothing():
    card = card_text(LabelRandomizer(2, DOMAIN, prior=Prior.uniform(DOMAIN)).fit([1.0]), HEADER)
    assert "ε = 2**" in card
    assert "designed without looking at them" in card
    assert "histogram" not in card


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, "replacing one record's label"),
        ({}, "which records exist"),
        ({}, "Several rows of one person cost ε each"),
        ({}, "Their ε add up"),
        ({}, "assumes that AES-256"),
        ({}, "The owner kept the key"),
        ({"keyed": False}, "is gone"),
        ({"keep_order": True}, "in the order of the input"),
        ({}, HEADER.release),
    ],
)
def test_the_card_says_what_is_protected_and_what_is_not(private, change, said):
    assert said in card_text(private, replace(HEADER, **change))
    if change:
        assert said not in card_text(private, HEADER)


def test_the_card_says_that_row_numbers_show_the_order(private):
    numbered = card_text(private, replace(HEADER, row_numbers=True))
    assert "The ids are the row numbers of the input, so they show its order" in numbered
    assert "it reveals them" in numbered
    assert "depends on the ids only" not in numbered
    both = card_text(private, replace(HEADER, row_numbers=True, keep_order=True))
    assert "Rows are in the order of the input" in both


def test_the_card_says_that_the_labels_name_is_in_the_message(private):
    assert "- The name of the labels: `price`." in card_text(private, HEADER)
    named = card_text(private, replace(HEADER, label_column="net `amount`\n# 2026"))
    assert "- The name of the labels: `net 'amount' # 2026`." in named


@pytest.mark.parametrize(
    ("epsilon", "most", "least"),
    [
        ("0.01", "50.2 %", "49.8 %"),
        ("0.1", "52 %", "48 %"),
        ("40", "nearly 100 %", "nearly 0 %"),
        ("1", "73 %", "27 %"),
        ("2", "88 %", "12 %"),
        ("8", "99.97 %", "0.03 %"),
    ],
)
def test_the_card_says_epsilon_in_words(epsilon, most, least):
    """The numbers are e^ε / (1 + e^ε) and 1 / (1 + e^ε)."""
    card = card_text(LabelRandomizer(epsilon, DOMAIN, prior=Prior.uniform(DOMAIN)).fit([1.0]), HEADER)
    assert f"**50 % becomes at most {most}**, and at least {least} (rounded)." in card


def test_the_card_lists_the_facts_of_the_release(private):
    facts = [line for line in card_text(private, HEADER, 1234).splitlines() if line.startswith("- **")][:3]
    assert facts == [
        "- **Records:** 1,234",
        "- **Labels:** `price`, from 0 to 10",
        "- **Unit of privacy:** one record with its label",
    ]
    known = replace(HEADER, dataset="sales\n# `x`", date="2026-01-02", persons=PersonUnit("customer", "int", 1))
    facts = [
        line for line in card_text(private, known, last_batch="2026-02-03").splitlines() if line.startswith("- **")
    ]
    assert facts[:2] == ["- **Dataset:** `sales # 'x'`", "- **Date:** 2026-01-02, last batch added on 2026-02-03"]
    assert "- **Unit of privacy:** one person with all labels, a value of the column `customer`" in facts
