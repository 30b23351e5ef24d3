"""Private sums carry their proof and survive JSON unchanged; text that contradicts itself is refused."""

from __future__ import annotations

import dataclasses
import json
import math
from fractions import Fraction
from functools import partial

import mpmath
import numpy as np
import pytest

from labeldp import Domain, InsufficientBudget, InvalidInput, Ledger, PrivacyRefused, PrivateSums
from labeldp.release.noisy_sums import KINDS, Answer, cube_variance, laplace_variance
from labeldp.release.sum_queries import SumQueries

LABELS = np.arange(200) % 50
CODES = np.arange(200) % 4
SIGNS = np.where(np.arange(600).reshape(200, 3) % 7 < 3, 1, -1).astype(np.int8)
FIFTY = Domain.integers(0, 49)


def released():
    queries = SumQueries(LABELS, 1, FIFTY)
    queries.histogram(5, "0.1")
    queries.clip(3, 40)
    queries.over_cells([CODES, CODES // 2], [4, 3], "0.3")
    queries.against_signs(SIGNS, queries.remaining)
    return queries.released


@pytest.fixture(scope="module")
def sums():
    return released()


def test_json_brings_everything_back(sums):
    again = PrivateSums.from_json(sums.to_json())
    assert again == sums
    assert hash(again) == hash(sums)
    assert again != released()
    assert again != "sums"
    assert PrivateSums.from_json(sums.to_json().encode()) == sums
    assert (again.spent, again.epsilon_exact, again.records) == (sums.spent, 1, 200)
    assert again.domain.whole
    for one, other in zip(again.answers, sums.answers, strict=True):
        assert one.values.tolist() == other.values.tolist()
        for name in ("kind", "scale", "clip", "sizes", "grain"):
            assert getattr(one, name) == getattr(other, name)


def test_the_proof_has_a_line_for_each_answer(sums):
    proof = sums.proof()
    assert proof.holds
    assert proof.require() is proof
    assert [line.kind for line in proof.lines] == ["histogram", "cells", "signs"]
    assert [line.sensitivity for line in proof.lines] == [2, 2 * 37, 37 * sums.answers[2].grain]
    for line in proof.lines:
        assert line.epsilon == line.sensitivity / Fraction(line.scale)
    assert proof.total == sums.spent == sum(line.epsilon for line in proof.lines)
    assert Fraction(1) - Fraction(1, 10**12) < proof.total <= 1
    text = str(proof)
    assert text.startswith("proven: claimed epsilon = 1, the answers cost ")
    assert "\n  histogram (5 numbers): sensitivity 2 / scale 20.0 = epsilon 0.1\n" in text


def test_a_claim_that_is_a_hair_too_small_is_refused(sums):
    with pytest.raises(PrivacyRefused, match="these sums are not"):
        dataclasses.replace(sums, epsilon_exact=sums.spent - Fraction(1, 10**30))


def text_of(record):
    return json.dumps(record)


def changes():
    """A name for each change by hand, and the change."""
    yield "a smaller epsilon", lambda r: r.update(epsilon="0.999")
    yield "no epsilon", lambda r: r.update(epsilon="0")
    yield "a large epsilon", lambda r: r.update(epsilon="41")
    yield "an epsilon that is a number", lambda r: r.update(epsilon=1)
    yield "another version", lambda r: r.update(format_version=2)
    yield "a version that is true", lambda r: r.update(format_version=True)
    yield "another format", lambda r: r.update(format="labeldp mechanism")
    yield "an unknown field", lambda r: r.update(note="x")
    yield "a missing field", lambda r: r.pop("records")
    yield "records as text", lambda r: r.update(records="200")
    yield "fewer records", lambda r: r.update(records=199)
    yield "one record", lambda r: r.update(records=1)
    yield "very many records", lambda r: r.update(records=2**60)
    yield "a narrower domain", lambda r: r["domain"].update(cells=40)
    yield "no grid", lambda r: r["domain"].update(cells=None)
    yield "no grid in an answer", lambda r: r["answers"][0]["domain"].update(cells=None)
    yield "a domain of text", lambda r: r.update(domain="ab")
    yield "no domain", lambda r: r.update(domain=None)
    yield "a domain of too many fields", lambda r: r["domain"].update(note="x")
    yield "bounds out of order", lambda r: r["domain"].update(upper=-1e9)
    yield "answers that are an object", lambda r: r.update(answers={})
    yield "an answer that is a list", lambda r: r["answers"].__setitem__(0, [])
    for place in range(3):
        for name, fields in changes_of_an_answer((5, 7, 3)[place]):
            yield f"{KINDS[place]}: {name}", partial(update_answer, place, fields)
    yield "cells: one partition less", lambda r: r["answers"][1].update(sizes=[7])
    yield (
        "cells: counts that wrap around",
        lambda r: r["answers"][1].update(counts=[str(2**62)] * 3 + [str(2**62 + 200), "100", "100", "0"]),
    )
    yield "cells: a wider clip", lambda r: r["answers"][1].update(clip=[0, 49])
    yield (
        "signs: a sum of signs that is even for an odd number",
        lambda r: r["answers"][2]["counts"].__setitem__(0, "1"),
    )


def changes_of_an_answer(numbers):
    yield "an unknown field", {"note": "x"}
    yield "a smaller scale", {"scale": 1.0}
    yield "no scale", {"scale": 0.0}
    yield "a negative scale", {"scale": -5.0}
    yield "a scale that is an integer", {"scale": 20}
    yield "another sensitivity", {"sensitivity": 1}
    yield "another epsilon", {"epsilon": "0.05"}
    yield "another kind", {"kind": "mean"}
    yield "a kind that is a list", {"kind": ["cells"]}
    yield "a clip outside the grid", {"clip": [0, 50]}
    yield "a clip out of order", {"clip": [5, 3]}
    yield "a clip of three", {"clip": [0, 1, 2]}
    yield "no sizes", {"sizes": []}
    yield "a size of zero", {"sizes": [0]}
    yield "huge sizes", {"sizes": [9 * 10**18] * 3}
    yield "another grain", {"grain": 3}
    yield "no grain", {"grain": 0}
    yield "values that are missing", {"values": []}
    yield "values that are numbers", {"values": [1, 2, 3]}
    yield "values that are text", {"values": ["x"] * 5}
    yield "counts that do not fit", {"counts": ["7"] * numbers}
    yield "counts beyond 64 bits", {"counts": ["9999999999999999999"] * numbers}
    yield "values beyond 2^61", {"values": ["4000000000000000000"] * numbers}


def update_answer(place, fields, record):
    record["answers"][place].update(fields)


CHANGES = dict(changes())


@pytest.mark.parametrize("change", CHANGES)
def test_what_was_changed_by_hand_is_refused(sums, change):
    record = json.loads(sums.to_json())
    CHANGES[change](record)
    with pytest.raises(InvalidInput):
        PrivateSums.from_json(text_of(record))


EXTREMES = [5e-324, 1e-300, 1e-3, 0.0249, 2.0**55 * (1 + 1e-15), 1e30, 1e154, 1e155, 1e300, 1.7e308]


@pytest.mark.parametrize("place", range(3), ids=KINDS)
@pytest.mark.parametrize("scale", EXTREMES)
def test_a_scale_that_no_noise_has_is_refused_though_all_costs_follow_from_it(sums, place, scale):
    record = json.loads(sums.to_json())
    answer = record["answers"][place]
    answer.update(scale=scale, epsilon=str(sums.answers[place].sensitivity / Fraction(scale)))
    record["epsilon"] = "40"
    with pytest.raises(InvalidInput, match=r"scale|cube noise"):
        PrivateSums.from_json(text_of(record))


@pytest.mark.parametrize("text", ["", "[]", "{}", "null", '{"format": "labeldp private sums"}', 7])
def test_other_texts_are_refused(text):
    with pytest.raises(InvalidInput):
        PrivateSums.from_json(text)


def test_the_card_says_what_is_protected_and_what_is_not(sums):
    card = sums.card()
    for words in (
        "ε = 1",
        "replace-one",
        "- 0.1 paid for counts",
        "- 0.3 paid for sums",
        "which records exist",
        "cost ε each",
    ):
        assert words in card
    days = PrivateSums.over_cells(np.array([1, 2], "timedelta64[D]"), [0, 1], 1, Domain(0, 10, unit="days"))
    assert "- **Labels:** from 0 to 10 **days**" in days.card()
    assert "Nothing was asked" in SumQueries(LABELS, 1, FIFTY).released.card()


def test_nothing_in_an_answer_can_be_written_to(sums):
    with pytest.raises(ValueError, match="read-only"):
        sums.answers[0].values[0] = 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        sums.epsilon_exact = Fraction(2)


def test_means_are_close_to_the_truth_and_missing_for_empty_cells():
    labels = np.repeat([10.0, 20.0, 30.0], 2000)
    sums = PrivateSums.over_cells(labels, np.repeat([0, 1, 3], 2000), 8, (0, 100))
    means = sums.means()  # the noise of each has a scale of 100/8/2000
    assert means[[0, 1, 3]] == pytest.approx([10, 20, 30], abs=0.2)
    assert math.isnan(means[2])
    assert sums.answers[0].counts.tolist() == [2000, 2000, 0, 2000]


def test_a_clip_in_label_values_narrows_the_noise():
    labels = np.repeat([10.0, 90.0], 2000)
    sums = PrivateSums.over_cells(labels, np.repeat([0, 1], 2000), 8, (0, 100), clip=(0, 25))
    assert sums.means() == pytest.approx([10, 25], abs=0.05)
    assert sums.answers[0].sensitivity == 2**18
    signs = np.ones((4000, 1), np.int8)
    signed = PrivateSums.against_signs(labels, signs, 8, (0, 100), clip=(0, 25))
    assert signed.answers[0].sums == pytest.approx([10 * 2000 + 25 * 2000], abs=100)


@pytest.mark.parametrize("clip", [(5, 1), (-1, 5), (0, 101), (0,), 7, "ab", (None, 1), (math.nan, 1)])
def test_a_clip_that_cannot_be_is_refused(clip):
    with pytest.raises(InvalidInput, match="clip must"):
        PrivateSums.over_cells([1, 2], [0, 1], 1, (0, 100), clip=clip)


def test_means_need_exactly_one_answer_over_cells(sums):
    queries = SumQueries(LABELS, 1, FIFTY)
    with pytest.raises(InvalidInput, match="0 answers of these sums are over cells"):
        queries.released.means()
    queries.over_cells(CODES, 4, 0.5)
    assert queries.released.means().shape == (4,)
    queries.over_cells(CODES, 4, 0.5)
    with pytest.raises(InvalidInput, match="2 answers"):
        queries.released.means()
    with pytest.raises(InvalidInput, match="of the kind 'signs'"):
        sums.answers[2].means()


def test_a_ledger_is_charged(tmp_path):
    ledger = Ledger.create(tmp_path / "ledger.db")
    ledger.add_dataset("sales", 1)
    with pytest.raises(InvalidInput, match="outside"):
        PrivateSums.over_cells(LABELS, CODES - 1, 0.6, FIFTY, ledger=ledger, dataset="sales")
    with pytest.raises(InvalidInput, match="must be \\+1"):
        PrivateSums.against_signs(LABELS, SIGNS * 2, 0.6, FIFTY, ledger=ledger, dataset="sales")
    assert ledger.remaining("sales") == 1
    PrivateSums.over_cells(LABELS, CODES, 0.6, FIFTY, ledger=ledger, dataset="sales")
    assert ledger.remaining("sales") == Fraction(2, 5)
    with pytest.raises(InsufficientBudget):
        PrivateSums.against_signs(LABELS, SIGNS, 0.6, FIFTY, ledger=ledger, dataset="sales")


@pytest.mark.parametrize("kind", ["list", "pandas", "polars", "arrow", "two partitions", "two rows"])
def test_cells_come_in_any_array(kind):
    pandas, polars, arrow = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    cells = {
        "list": CODES.tolist(),
        "pandas": pandas.Series(CODES.astype(np.uint64)),
        "polars": polars.Series(CODES),
        "arrow": arrow.array(CODES),
        "two partitions": [CODES.tolist(), polars.Series(CODES)],
        "two rows": np.stack([CODES, CODES]),
    }[kind]
    answer = PrivateSums.over_cells(LABELS, cells, 1, FIFTY).answers[0]
    assert answer.counts.tolist() == [50] * (8 if kind.startswith("two") else 4)
    assert answer.sensitivity == 49 * len(answer.sizes)


@pytest.mark.parametrize("scale", [0.2, 1.0, 7.5, 300.0])
def test_the_variance_of_laplace_noise_is_that_of_the_law(scale):
    noise = np.arange(-12_000, 12_001)
    weights = np.exp(-np.abs(noise) / scale)
    assert laplace_variance(scale) == pytest.approx(weights @ noise**2.0 / weights.sum(), rel=1e-9)


@pytest.mark.parametrize("scale", [0.3, 4.0, 1000.0])
@pytest.mark.parametrize("count", [1, 2, 8, 40])
def test_the_variance_of_cube_noise_is_that_of_the_law(count, scale):
    """Σ (2r + 1)^m·q^r is B_m(q)/(1 − q)^(m+1), where B_m has the Eulerian numbers of type B as coefficients (Brenti, 1994).

    So the mean of r(r + 1)/3 = ((2r + 1)² − 1)/12 over the radii is known in closed form.
    """
    with mpmath.workdps(60):
        q = mpmath.exp(-1 / mpmath.mpf(scale))

        def moment(m):
            return mpmath.polyval(eulerian_of_type_b(m)[::-1], q) / (1 - q) ** (m + 1)

        expected = float((moment(count + 2) / moment(count) - 1) / 12)
    assert cube_variance(count, scale) == pytest.approx(expected, rel=1e-9)


def eulerian_of_type_b(m):
    """The recurrence B(n, k) = (2k + 1)·B(n−1, k) + (2n − 2k + 1)·B(n−1, k−1)."""
    row = [1]
    for n in range(1, m + 1):
        row = [
            (2 * k + 1) * (row[k] if k < n else 0) + (2 * n - 2 * k + 1) * (row[k - 1] if k else 0)
            for k in range(n + 1)
        ]
    return row


def test_a_column_costs_a_sixth_of_as_many_laplace_sums():
    count, width = 200, 1e6
    assert cube_variance(count, width) / laplace_variance(count * width) == pytest.approx(1 / 6, rel=0.02)


def test_an_answer_that_contradicts_itself_is_refused():
    good = {
        "kind": "cells",
        "values": np.zeros(2, np.int64),
        "scale": 9.0,
        "clip": (0, 9),
        "counts": np.ones(2, np.int64),
        "sizes": (2,),
        "domain": Domain.integers(0, 9),
    }
    assert Answer(**good).epsilon_exact == 1
    for wrong in (
        {"values": np.zeros(2)},
        {"values": np.zeros(3, np.int64)},
        {"scale": math.nan},
        {"scale": math.inf},
        {"clip": (3, 3)},
        {"grain": 2},
        {"kind": "histogram", "sizes": (11,), "values": np.zeros(11, np.int64), "counts": np.ones(11, np.int64)},
    ):
        with pytest.raises(InvalidInput):
            Answer(**good | wrong)


@pytest.mark.parametrize("kind", ["cells", "signs", "histogram"])
def test_an_answer_without_noise_has_the_only_numbers_it_can_have(kind):
    queries = SumQueries([1.0, 2.0, 9.0], 1, Domain.integers(0, 9))
    queries.clip(5, 5)
    if kind == "cells":
        answer = queries.over_cells([0, 1, 1], 2, 1)
    elif kind == "signs":
        answer = queries.against_signs(np.array([[1], [-1], [1]], np.int8), 1)
    else:
        answer = queries.histogram(2, 1)
    assert answer.scale == 0
    assert queries.remaining == 1
    text = queries.released.to_json()
    assert PrivateSums.from_json(text) == queries.released
    record = json.loads(text)
    record["answers"][0]["values"][0] = str(int(record["answers"][0]["values"][0]) + 1)
    with pytest.raises(InvalidInput, match="without noise"):
        PrivateSums.from_json(json.dumps(record))


def test_too_many_answers_are_not_read(sums):
    record = json.loads(sums.to_json())
    record["answers"] = record["answers"][:1] * 2001
    with pytest.raises(InvalidInput, match="at most 2,000"):
        PrivateSums.from_json(json.dumps(record))
