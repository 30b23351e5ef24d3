"""What the parts of `make bench` share: exponents, ratios, tables, who is ahead, and workers in other environments."""

from __future__ import annotations

import sys
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from bench.environments import PeerUnavailableError, Worker, python_of, requirements
from bench.growth import fit
from bench.part import typed
from bench.results import PLAIN, Column, Contest, Result, Table, Target, target_line, written
from bench.standing import MissingSentenceError, Sentence, leads, paragraphs, read_sentences
from bench.timing import Times, alternately, ratio

PEERS = Path(__file__).resolve().parents[2] / "benchmarks" / "peers"


def test_an_exponent_is_found_exactly_where_there_is_no_noise():
    sizes = [10, 100, 1000, 10_000]
    growth = fit(sizes, [3e-6 * size**1.5 for size in sizes])
    assert growth.exponent == pytest.approx(1.5)
    assert growth.low == pytest.approx(1.5)
    assert growth.high == pytest.approx(1.5)


def test_the_interval_of_an_exponent_is_that_of_the_regression():
    sizes, factors = np.array([1.0, 2.0, 4.0, 8.0]), np.exp([0.1, -0.1, -0.1, 0.1])
    growth = fit(sizes, sizes**2 * factors)
    # Residuals are ±0.1 and orthogonal to log(size); t with two degrees of freedom is 4.3027.
    error = np.sqrt(0.04 / 2 / np.sum((np.log(sizes) - np.log(sizes).mean()) ** 2))
    assert growth.exponent == pytest.approx(2)
    assert growth.high - growth.exponent == pytest.approx(4.302653 * error, rel=1e-5)


def test_an_exponent_needs_two_sizes_and_three_points():
    with pytest.raises(ValueError, match="three points"):
        fit([10, 10, 10], [1, 2, 3])
    with pytest.raises(ValueError, match="three points"):
        fit([10, 100], [1, 2])


def test_ratios_are_taken_within_rounds():
    found = Times((2.0, 30.0, 8.0)).over(Times((1.0, 10.0, 2.0)))
    assert (found.median, found.low, found.high) == (3.0, 2.0, 4.0)
    with pytest.raises(ValueError, match="as many rounds"):
        ratio([1.0], [1.0, 2.0])


def test_jobs_take_turns_and_a_job_may_measure_itself():
    order = []
    times = alternately({"one": lambda: order.append("one"), "two": lambda: 7.5}, 2, clock=iter(range(100)).__next__)
    assert order == ["one"] * 3  # one round to warm up
    assert times["one"].seconds == (1, 1)
    assert times["two"].seconds == (7.5, 7.5)


def table():
    made = Table("sizes", "Sizes.", [Column("name", "name"), Column("size", "how | many", ",.1f")])
    made.add(name="a|b", size=1234.56)
    made.add(name="c")
    return made


def test_a_table_is_written_for_terminals_and_pages():
    assert table().text().splitlines() == ["Sizes.", "  name  how | many", "  a|b      1,234.6", "  c              –"]
    assert table().markdown().splitlines()[2:] == [
        "| name | how | many |",
        "|---|---:|",
        "| a\\|b | 1,234.6 |",
        "| c | – |",
    ]
    with pytest.raises(KeyError, match="no columns weight"):
        table().add(weight=1)


@pytest.mark.parametrize(("value", "text"), [(5994.2, "5,994"), (0.04217, "0.0422"), (9.0, "9"), (None, "–")])
def test_numbers_of_any_size_have_no_exponent(value, text):
    assert written(value, PLAIN) == text


def test_a_missed_target_says_by_how_much_and_why():
    met, missed = Target("time", 2, 1.5, "×"), Target("speed", 50, 20, "×", "high", "It waits for the disk.")
    assert target_line(met) == "time: at most 2×, measured 1.5×: met"
    assert target_line(missed) == (
        "speed: at least 50×, measured 20×: missed by a factor of 2.50. It waits for the disk."
    )


def result(**peers):
    made = Result("speed", "Speed", "python benchmarks/speed.py")
    made.contests = [Contest("sums", "low", {"ours": 2.0, "ours, slow": 9.0}, peers, "s")]
    return made


def test_the_command_of_a_result_is_what_was_typed_without_paths():
    given = ["/somewhere/benchmarks/models.py", "--seeds", "2", "--json", "/a/b.json", "--plot=/a/b.svg", "--quick"]
    assert typed(given) == "python benchmarks/models.py --seeds 2 --quick"


def test_a_result_survives_its_file(tmp_path):
    made = result(them=1.0)
    made.tables.append(table())
    made.targets.append(Target("time", 2, 1.5))
    made.write(tmp_path / "speed.json")
    assert Result.read(tmp_path / "speed.json") == made


def test_a_peer_is_ahead_of_our_best_by_more_than_one_percent():
    assert leads(result(slower=2.1, level=1.99)) == []
    (lead,) = leads(result(faster=1.0))
    assert (lead.peer, lead.factor) == ("faster", 2.0)
    high = Contest("rows", "high", {"ours": 10.0}, {"them": 30.0})
    made = result()
    made.contests = [high]
    assert [lead.factor for lead in leads(made)] == [3.0]


def test_a_peer_that_is_ahead_without_a_sentence_is_an_error():
    other = Sentence("speed", "products", "faster", "Not about sums.")
    with pytest.raises(MissingSentenceError, match=r"speed: faster by 2\.00 in sums"):
        paragraphs(result(faster=1.0), [other])


def test_a_sentence_is_shown_with_the_figures_of_the_run_and_only_if_it_is_needed():
    sentence = Sentence("speed", "su*", "slow* | fast*", "{peers} ahead by {factor} ({where}, {rows} of {all}).")
    assert paragraphs(result(faster=1.0), [sentence]) == ["faster ahead by 2.00 (sums, 1 of 1)."]
    assert paragraphs(result(slower=3.0), [sentence]) == ["No peer is ahead of us in any row of this part."]


def test_every_sentence_can_be_filled_in():
    for sentence in read_sentences():
        text = sentence.text.format(factor="1.2", most="1.3", rows=1, all=2, where="a", peers="b", ours="1")
        assert "{" not in text
        assert sentence.text.strip().endswith((".", ")"))


WORKER = """
import sys
sys.path.insert(0, {peers!r})
import numpy as np
from serving import serve

def twice(values, number):
    print("libraries print")
    return {{"doubled": 2 * values, "number": number}}

def fail():
    raise ValueError("no such thing")

serve({{"twice": twice, "fail": fail, "end": sys.exit}}, ["numpy"])
"""


@pytest.fixture
def worker(tmp_path):
    script = tmp_path / "worker.py"
    script.write_text(WORKER.format(peers=str(PEERS)), encoding="utf-8")
    with Worker("peer", str(script), python=Path(sys.executable)) as made:
        yield made


def test_a_worker_takes_and_gives_arrays_and_numbers(worker):
    answer = worker.ask("twice", {"values": np.arange(3)}, number=5)
    assert answer["doubled"].tolist() == [0, 2, 4]
    assert answer["number"] == 5
    assert worker.ask("versions") == {"numpy": np.__version__}


def test_a_worker_that_fails_says_why_and_goes_on(worker):
    with pytest.raises(PeerUnavailableError, match="ValueError: no such thing"):
        worker.ask("fail")
    assert worker.ask("versions")
    with pytest.raises(PeerUnavailableError, match="ended without an answer"):
        worker.ask("end")


def test_every_peer_is_pinned_and_says_why_it_has_an_environment_of_its_own():
    files = sorted(PEERS.glob("*.txt"))
    assert len(files) >= 6
    for file in files:
        assert file.read_text(encoding="utf-8").startswith("# ")
        assert requirements(file.stem)
        assert all(line.count("==") == 1 for line in requirements(file.stem)), file.name


def test_the_version_of_dp_ebm_is_the_one_that_is_installed():
    import dp_ebm

    assert f"interpret-core=={dp_ebm.VERSION}" in requirements("interpret")


def test_a_peer_that_cannot_be_installed_is_reported_by_name(tmp_path, monkeypatch):
    (tmp_path / "a file").touch()
    monkeypatch.setenv("LABELDP_PEERS", str(tmp_path / "a file"))
    with pytest.raises(PeerUnavailableError, match="duckdb could not be installed"):
        python_of("duckdb")


def test_a_short_job_is_repeated_and_its_mean_counts():
    clock = count(0, 0.25)
    calls = []
    times = alternately({"short": lambda: calls.append(1)}, 2, clock=lambda: next(clock), warm=False, at_least=1.0)
    assert len(calls) == 8
    assert times["short"].seconds == (0.25, 0.25)
