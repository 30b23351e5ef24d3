"""One ε per person in memory: which rows are chosen, what they cost, and an audit with persons as neighbours."""

from __future__ import annotations

import itertools
import warnings
from fractions import Fraction
from unittest import mock

import numpy as np
import pytest

from labeldp import LabelDPRegressor, LabelRandomizer, Prior
from labeldp.errors import InvalidInput
from labeldp.evaluate import measure
from labeldp.learn.learners import BoostingRegressor
from labeldp.mechanisms.prediction import ModelErrors, entries_per_person
from labeldp.mechanisms.private_labels import PrivateLabels
from labeldp.priors import BudgetWarning
from labeldp.release import randomizer as randomizer_module
from labeldp.sampling import EntryChoice, KeyedRandomness, choose_entries, person_sizes
from seeded_words import SeededWords

ROWS = 3
COIN = Prior([0, 1], [1, 1])


def words(*numbers):
    return np.array(numbers, np.uint64)


@pytest.mark.parametrize("most", [1, 2, 3])
def test_the_lowest_ranks_of_each_person_are_chosen_in_any_order_of_the_rows(most):
    generator = np.random.default_rng(most)
    persons = generator.integers(0, 40, 300).astype(np.uint64)
    ranks = generator.integers(0, 1000, 300).astype(np.uint64)  # with ties
    chosen = choose_entries(persons, ranks, most)
    order = generator.permutation(300)
    assert (choose_entries(persons[order], ranks[order], most) == chosen[order]).all()
    for person in range(40):
        own = persons == person
        kept, left = ranks[own & chosen], ranks[own & ~chosen]
        assert kept.size <= most
        assert not left.size or not kept.size or kept.max() < left.min()
        values, counts = np.unique(ranks[own], return_counts=True)
        expected = values[np.cumsum(counts) <= most]  # whole groups of ties only
        assert sorted(set(kept.tolist())) == expected.tolist()


def test_no_entries_and_one_entry():
    assert choose_entries(words(), words(), 1).tolist() == []
    assert choose_entries(words(5), words(7), 1).tolist() == [True]
    assert person_sizes(words()).sum() == 0


def test_each_row_of_a_person_is_as_likely_as_the_others():
    choice = EntryChoice(b"k" * 32)
    persons = choice.persons(np.repeat(np.arange(30_000), ROWS))
    chosen = choose_entries(persons, choice.ranks(persons, np.arange(persons.size)), 1).reshape(-1, ROWS)
    assert (chosen.sum(axis=1) == 1).all()
    assert chosen.mean(axis=0) == pytest.approx([1 / 3] * 3, abs=0.012)  # more than four standard deviations


def test_the_choice_depends_on_the_person_the_id_the_column_and_the_key():
    choice, other = EntryChoice(b"k" * 32), EntryChoice(b"l" * 32)
    persons = choice.persons(["7", "8"])
    assert len(set(persons.tolist() + choice.persons([7, 8]).tolist() + other.persons(["7", "8"]).tolist())) == 6
    ranks = [choice.ranks(persons, ids, column) for ids in (["a", "b"], [1, 2]) for column in (0, 1)]
    assert len(np.unique(ranks)) == 8


def test_labels_do_not_change_which_rows_are_chosen_and_the_key_repeats_them():
    source, ids = KeyedRandomness.generate(), np.arange(4000)
    randomizer = LabelRandomizer(1, (0, 1))
    rows = [
        randomizer.randomize(labels, ids, source, persons=ids // 4).rows.tolist()
        for labels in (np.zeros(4000), np.ones(4000))
    ]
    assert rows[0] == rows[1]
    order = np.random.default_rng(0).permutation(4000)
    again = randomizer.randomize(np.zeros(4000), order, source, persons=order // 4)
    assert sorted(order[again.rows].tolist()) == rows[0]


@pytest.mark.parametrize(("epsilon", "entries"), [("1", 1), ("12", 2)])
def test_all_labels_of_a_person_cost_epsilon_together(epsilon, entries):
    labels, persons = np.arange(4000) % 100, np.arange(4000) // 4
    private = LabelRandomizer(epsilon, (0, 99)).randomize(labels, persons=persons)
    mechanism = private.mechanism
    assert private.entries == entries
    assert np.bincount(persons[private.rows]).max() == entries
    assert private.epsilon_exact == entries * (mechanism.epsilon_exact + mechanism.prior.epsilon_exact)
    assert private.epsilon_exact == Fraction(epsilon)
    assert mechanism.prior.counts.records == len(private)  # only chosen labels are counted


def test_the_histogram_counts_chosen_labels_only():
    counted = []
    with mock.patch.object(
        randomizer_module, "histogram", lambda values, grid: counted.append(values.size) or np.zeros(grid.count, int)
    ):
        private = LabelRandomizer(1, (0, 99)).randomize(np.arange(4000) % 100, persons=np.arange(4000) // 4)
    assert counted == [len(private)] == [1000]


def test_moving_all_labels_of_a_person_moves_the_histogram_by_its_sensitivity():
    """The noise has scale 2m/ε₁ for m entries: all of them move from one count to another."""
    private = LabelRandomizer("12", (0, 99)).randomize(np.arange(4000) % 100, persons=np.arange(4000) // 4)
    before, after = np.zeros(2, int), np.zeros(2, int)
    before[0] = after[1] = private.entries
    moved = np.abs(after - before).sum()
    spent = private.entries * private.mechanism.prior.epsilon_exact
    assert moved / Fraction(private.mechanism.prior.counts.scale) == spent


def persons_view(labels, entries, epsilon, seed):
    """What a reader sees of persons with `ROWS` rows each, as one number per person: the code of each row, or that it has none."""
    source = SeededWords(seed)

    def randomize(scenarios):
        values = np.array(labels)[scenarios.astype(int)].reshape(-1)
        persons = np.repeat(np.arange(scenarios.size), ROWS)
        with mock.patch.object(randomizer_module, "entries_per_person", lambda sizes, *_: (entries, int(sizes.sum()))):
            private = LabelRandomizer(epsilon, (0, 1), mechanism="rr-on-bins", prior=COIN).randomize(
                values, randomness=source, persons=persons
            )
        seen = np.zeros(values.size, int)
        seen[private.rows] = private.codes + 1
        return (seen.reshape(-1, ROWS) * 3 ** np.arange(ROWS)).sum(axis=1).astype(float)

    return randomize


@pytest.mark.parametrize("entries", [1, 2])
def test_an_audit_with_neighbours_that_differ_in_all_labels_of_a_person(entries):
    """The draws are seeded; with true randomness a false alarm would have the probability of 1e-6 that `measure` is given."""
    scenarios = [[0, 0, 0], [1, 1, 1], [0, 1, 0]]
    view = persons_view(scenarios, entries, 1, seed=entries)
    found = measure(view, range(3), epsilon=1, samples=300_000, confidence=1 - 1e-6, seed=1)
    assert not found.refuted
    assert found.epsilon_lower > 0.9  # the bound is reached


def test_the_audit_finds_two_entries_at_full_epsilon():
    view = persons_view([[0, 0, 0], [1, 1, 1]], 2, 2, seed=3)  # two entries at ε = 1 each, where ε = 1 was promised
    found = measure(view, range(2), epsilon=1, samples=300_000, confidence=1 - 1e-6, seed=1)
    assert found.refuted


@pytest.mark.parametrize("entries", [1, 2, 3])
def test_the_exact_law_of_what_a_person_shows_is_within_e_to_the_epsilon(entries):
    mechanism = LabelRandomizer(Fraction(2, entries), (0, 1), mechanism="rr-on-bins", prior=COIN).rehearse(10)
    matrix = mechanism.matrix([0.0, 1.0])
    laws = [
        {
            codes: float(np.prod([matrix[label, code] for label, code in zip(labels, codes, strict=True)]))
            for codes in itertools.product(range(2), repeat=entries)
        }
        for labels in itertools.product(range(2), repeat=entries)
    ]
    worst = max(one[codes] / two[codes] for one in laws for two in laws for codes in one)
    assert worst <= np.exp(2) * (1 + 1e-12)
    assert worst == pytest.approx(np.exp(2))


def test_one_entry_at_small_epsilon_and_several_at_large():
    sizes = np.zeros(65, int)
    sizes[5] = 10_000
    models = ModelErrors(Prior(np.arange(100.0), np.ones(100)))
    chosen = [entries_per_person(sizes, Fraction(epsilon), models) for epsilon in ("0.5", "4", "30")]
    assert [entries for entries, _ in chosen] == sorted(entries for entries, _ in chosen)
    assert chosen[0] == (1, 10_000)
    assert chosen[2][0] > 1
    assert all(records == entries * 10_000 for entries, records in chosen)


@pytest.mark.parametrize(
    ("persons", "wrong"),
    [
        ([None] + [1, 2] * 50, "persons must not be null: row 0"),
        (["a", *range(100)], "persons must be integers or text"),
        (np.arange(101.0), "got floats"),
        ([7] * 101, "all rows belong to one person"),
        ([7, 8], "got 2 persons for 101 labels"),
    ],
)
def test_persons_that_cannot_be_used_are_refused(persons, wrong):
    with pytest.raises(InvalidInput, match=wrong):
        LabelRandomizer(1, (0, 100)).randomize(range(101), persons=persons)
    with pytest.raises(InvalidInput, match=wrong):
        LabelDPRegressor(epsilon=1, domain=(0, 100)).fit(np.zeros((101, 1)), range(101), persons=persons)


def test_persons_that_are_the_records_give_a_warning_and_all_rows():
    with pytest.warns(BudgetWarning, match="no person has more than one row"):
        private = LabelRandomizer(1, (0, 100)).randomize(np.arange(400) % 100, persons=np.arange(400))
    assert private.rows.tolist() == list(range(400))


def test_a_million_rows_of_one_person_among_others():
    persons = np.r_[np.zeros(1_000_000, int), np.arange(1, 1001)]
    private = LabelRandomizer(1, (0, 1)).randomize(np.zeros(persons.size), persons=persons)
    assert len(private) == 1001
    assert np.count_nonzero(private.rows < 1_000_000) == 1


def test_slices_and_files_keep_the_rows(tmp_path):
    private = LabelRandomizer(12, (0, 100)).randomize(np.arange(400) % 100, persons=np.arange(400) // 4)
    private.save(tmp_path / "labels.parquet")
    loaded = PrivateLabels.load(tmp_path / "labels.parquet")
    assert loaded.rows.tolist() == private.rows.tolist()
    assert (loaded.entries, loaded.epsilon_exact) == (private.entries, private.epsilon_exact)
    assert private[3:7].rows.tolist() == private.rows[3:7].tolist()
    assert private[3:7].epsilon_exact == private.epsilon_exact


@pytest.mark.parametrize("method", ["labels", "sums"])
def test_a_model_of_persons_is_trained_on_chosen_or_weighted_rows_and_costs_epsilon(method):
    generator = np.random.default_rng(0)
    features = generator.normal(size=(8000, 2))
    labels = np.clip(50 + 20 * features[:, 0], 0, 100)
    estimator = BoostingRegressor() if method == "labels" else None
    model = LabelDPRegressor(estimator, epsilon=2, domain=(0, 100), method=method)
    weights = {"sample_weight": np.ones(8000)} if method == "labels" else {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(features, labels, persons=np.arange(8000) // 4, **weights)
    assert model.epsilon_spent_ == 2
    assert model.score(features, labels) > 0.5
    if method == "sums":
        assert (model.sums_.records, model.sums_.size) == (
            8000,
            2000,
        )  # all rows, each with a quarter of a person's weight
        assert model.sums_.epsilon_exact == 2


def test_text_and_frames_are_chosen_from_like_arrays():
    import pandas as pd

    frame = pd.DataFrame({"x": np.tile(np.arange(10.0), 200), "t": ["a", "b"] * 1000})
    labels = frame["x"].to_numpy() * 10
    model = LabelDPRegressor(BoostingRegressor(), epsilon=8, domain=(0, 90), method="labels")
    model.fit(frame, labels, persons=[f"p{number // 5}" for number in range(2000)])
    assert model.score(frame, labels) > 0.5
