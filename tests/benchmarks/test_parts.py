"""The parts of `make bench` run, at sizes that take seconds, and their solvers and peers do the work that is claimed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import algorithm_2_compiled
import auditing
import files
import optimiser
import randomizing
from bench.results import Result
from labeldp.binning import optimal_bins

needs_polars = pytest.mark.skipif(
    tuple(map(int, pl.__version__.split(".")[:2])) < (1, 31),
    reason="the benchmark's polars program streams, which older ones cannot",
)


@pytest.mark.parametrize("loss", optimiser.LOSSES)
def test_solvers_find_the_same_optimum(loss):
    times, gaps = optimiser.one_case(loss, 1.0, 10, dict.fromkeys(optimiser.LIMITS, 10))
    assert optimiser.OURS in times
    assert (optimiser.CUBIC in times) == (loss != "huber(20)")
    assert all(gap < 1e-9 for gap in gaps.values())


@pytest.mark.parametrize("loss", ["squared", "absolute", "pinball(0.9)", "poisson", "gamma", "squared-log"])
def test_the_compiled_algorithm_2_is_right_on_skewed_priors(loss):
    rng = np.random.default_rng(5)
    for epsilon in (0.3, 2.0, 6.0):
        prior = optimiser.Prior(np.sort(rng.lognormal(3, 1.5, 40)), rng.random(40) ** 4 + 1e-6)
        found = algorithm_2_compiled.least_loss(prior.values, prior.masses, epsilon, loss)
        assert found == pytest.approx(optimal_bins(prior, epsilon, loss).expected_loss, rel=1e-8)


def test_the_optimiser_s_tables_have_ratios_and_exponents():
    result = Result("optimiser", "", "", quick=True)
    times = {optimiser.OURS: (0.001,), optimiser.CUBIC: (0.004,), optimiser.PROGRAM: (0.1,)}
    found = {
        k: {name: tuple(s * k / 10**4 for s in seconds) for name, seconds in times.items()} for k in (10**4, 10**5)
    }
    found[10**6] = {optimiser.OURS: (0.1,)}
    optimiser.tabulate(result, {("squared", 1.0): found}, {optimiser.CUBIC: 1e-12}, (10**4, 10**5, 10**6))
    sizes, growth, losses = result.tables
    assert sizes.rows[0][optimiser.CUBIC] == pytest.approx(4)
    assert sizes.rows[2] == {"k": 10**6, "ours": pytest.approx(100)}
    assert growth.rows[0]["least"].startswith("1.00")
    assert losses.rows[0]["1"] == pytest.approx(0.1)
    assert len(result.contests) == 2


def test_randomizers_take_turns_and_are_compared(monkeypatch, tmp_path):
    monkeypatch.setattr(randomizing, "opendp", lambda _: [])
    result = randomizing.measure(quick=True, peers=False)
    assert [table.key for table in result.tables] == ["response", "laplace", "staircase", "limits"]
    assert result.tables[0].rows[0]["ratio"] == 1
    assert [len(contest.peers) for contest in result.contests] == [1, 1, 1, 2, 2, 0]
    randomizing.draw(result, tmp_path / "randomizing.svg")
    assert "labeldp, text ids" in (tmp_path / "randomizing.svg").read_text(encoding="utf-8")


def test_an_audit_refutes_floats_and_proves_integers():
    exact, *_, floats = auditing.ours()
    row = auditing.audit(exact, 20_000)
    assert row["verdict"] == "proven"
    row = auditing.audit(floats, 20_000)
    assert row["verdict"] == "refuted"
    assert row["bits"] > 1 > row["bound"]


def test_the_last_bit_of_a_float_is_its_smallest_power_of_two():
    outputs = np.array([0.0, 1.0, 3.0, -6.0, 0.75, 2.0**-1074, 0.1])
    assert auditing.last_bit(outputs).tolist() == [-2000, 0, 0, 1, -2, -1074, -55]


@needs_polars
def test_files_are_released_copied_and_compared(tmp_path):
    programs = {files.COPY: None, files.GROUPS: None, files.OURS: None, files.POLARS: "same"}
    case = files.Case(2_000, "str", "csv")
    runs = files.one_case(case, programs, None, 1, tmp_path)
    assert list(tmp_path.iterdir()) == []
    result = Result("files", "", "")
    files.tabulate(result, {case: runs, files.Case(2_000): runs})
    assert result.tables[0].rows[0][files.OURS] == pytest.approx(
        runs.seconds[files.OURS][0] / runs.seconds[files.COPY][0]
    )
    assert result.tables[1].rows[0][files.OURS] * files.GIB == runs.memory[files.OURS] > 2**26
    assert [contest.key.rsplit(", ", 1)[1] for contest in result.contests[:3]] == ["same job", "noise only", "memory"]


@needs_polars
def test_a_peer_that_fails_on_a_file_is_noted_and_the_others_go_on(tmp_path):
    programs = {files.COPY: None, files.GROUPS: None, files.OURS: None, files.POLARS: "same", files.DUCKDB: "same"}
    case = files.Case(1_000, weeks=True)
    runs = files.one_case(case, programs, Path("/bin/false"), 1, tmp_path)
    assert runs.failed == {files.DUCKDB: "exit code 1"}
    runs.seconds[files.OURS], runs.processor[files.OURS], runs.memory[files.OURS] = [1.0], [1.0], 1 << 30
    result = Result("files", "", "")
    files.tabulate(result, {case: runs})
    assert files.DUCKDB not in result.tables[0].rows[0]
    assert result.notes[0] == "DuckDB failed on 1,000 rows, integer ids, Parquet, census weeks: exit code 1."


def test_a_file_without_room_is_not_begun(tmp_path):
    with pytest.raises(files.DiskFullError, match="GiB are free"):
        files.one_case(files.Case(10**15), {}, None, 1, tmp_path)
    assert list(tmp_path.iterdir()) == []


@needs_polars
def test_the_insecure_equivalent_does_randomized_response(tmp_path):
    import subprocess
    import sys

    import files_input

    data, out = tmp_path / "data.parquet", tmp_path / "out.parquet"
    files_input.generate(data, 200_000, "int", "sales")
    script = files.HERE / "peers" / "polars_files.py"
    subprocess.run([sys.executable, str(script), str(data), str(out), "same"], check=True)
    thresholds = [40.0, 90.0, 150.0, 210.0, 280.0]
    true = pl.read_parquet(data).with_columns(
        bin=pl.sum_horizontal([(pl.col("label") > threshold).cast(pl.UInt8) for threshold in thresholds])
    )
    both = pl.read_parquet(out).join(true, on="id")
    assert len(both) == 200_000
    # The words are a hash of fixed ids, so that this number is the same on every machine with this polars: 7 standard errors are room.
    assert (both["code"] == both["bin"]).mean() == pytest.approx(np.e / (np.e + 5), abs=0.0075)
