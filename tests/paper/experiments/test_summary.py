"""Tables of published and measured figures, and the claims that they decide."""

from __future__ import annotations

import csv
import math

import pytest

from labeldp.paper.experiments import get_task
from labeldp.paper.experiments import reproduction as results
from labeldp.paper.experiments.reproduction import Measured
from labeldp.paper.experiments.tasks import NOT_PRIVATE
from labeldp.paper.experiments.trainings import Run, TrainedRun

CRITEO = get_task("criteo")


def trained(method: str, epsilon: float, seed: int, loss: float, squared: float = 0.0) -> TrainedRun:
    return TrainedRun(Run(method, epsilon, seed), 1.0 + seed, loss, squared, 0.0, 0.0)


def scaled_figures(**scaled: float):
    """Test figures at the published values times a factor for each method."""
    figures = {(NOT_PRIVATE, math.inf): Measured(4319.86 * scaled.get("none", 1.0))}
    for (column, method, epsilon), (mean, _) in CRITEO.published.items():
        if column == "test" and math.isfinite(epsilon):
            figures[method, epsilon] = Measured(mean * scaled.get(method.replace("-", "_"), 1.0))
    return figures


def test_means_and_deviations_are_over_seeds():
    runs = [trained("laplace", 1.0, seed, 0.0, squared) for seed, squared in enumerate((2.0, 4.0, 9.0))]
    test, mechanism = results.trained_figures(runs, "squared")
    assert test["laplace", 1.0] == Measured(5.0, pytest.approx(math.sqrt(13)), 3)
    assert mechanism["laplace", 1.0].mean == 2.0


def test_relative_poisson_loss_is_taken_on_the_same_partition():
    runs = [
        trained(NOT_PRIVATE, math.inf, 0, 2.0),
        trained(NOT_PRIVATE, math.inf, 1, 4.0),
        trained("rr-on-bins", 1.0, 0, 3.0),
        trained("rr-on-bins", 1.0, 1, 5.0),
    ]
    test, _ = results.trained_figures(runs, "poisson")
    assert test["rr-on-bins", 1.0].mean == pytest.approx((0.5 + 0.25) / 2)
    assert test[NOT_PRIVATE, math.inf].mean == 0.0


def test_a_single_run_has_no_deviation():
    assert Measured.of([3.0]) == Measured(3.0, None, 1)
    assert str(Measured.of([3.0])) == "3.0000"
    assert str(Measured(12345.678, 9.5)) == "12,345.68 ± 9.50"


def test_side_by_side_has_the_papers_figure_ours_and_the_ratio():
    head, rows = results.side_by_side("test", scaled_figures(laplace=1.5), CRITEO.published)
    assert head[1:4] == ["Laplace, paper", "Laplace, ours", "Laplace, ratio"]
    half = next(row for row in rows if row[0] == "0.5")
    assert half == ["0.5", "18,411.30 ± 111.82", "27,616.95", "1.5000", "10,901.33 ± 36.54", "10,901.33", "1.0000"]
    assert rows[-1][0] == "∞"
    assert rows[-1][4:] == ["4,319.86 ± 29.27", "4,319.86", "1.0000"]
    assert len(rows) == 13


def test_a_stand_in_gets_a_column_beside_each_method():
    beside = {("laplace", 0.5): Measured(12.0)}
    head, rows = results.side_by_side("test", scaled_figures(), CRITEO.published, beside)
    assert head[4] == "Laplace, stand-in"
    assert head[8] == "RR-on-Bins, stand-in"
    half = next(row for row in rows if row[0] == "0.5")
    assert (half[4], half[8]) == ("12.00", "")


def test_grid_points_at_the_lowest_of_each_row():
    figures = {("laplace", 1.0): Measured(3.0), ("rr-on-bins", 1.0): Measured(2.0), ("laplace", 2.0): Measured(1.0)}
    head, rows, best = results.grid(figures, ("rr-on-bins", "laplace", "staircase"))
    assert head == ["ε", "RR-on-Bins", "Laplace"]
    assert [row[0] for row in rows] == ["1", "2"]
    assert rows[1][1] == ""
    assert best == [1, 2]


def test_the_csv_holds_every_line(tmp_path):
    lines = results.compare("test", scaled_figures(), CRITEO.published)
    results.write_figures(tmp_path / "figures.csv", lines)
    with (tmp_path / "figures.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(lines) == 25
    assert all(float(row["ratio"]) == pytest.approx(1) for row in rows)


@pytest.mark.parametrize(
    ("scaled", "broken"),
    [
        ({}, None),
        ({"none": 1.09}, None),
        ({"none": 1.11}, "without privacy"),
        ({"rr_on_bins": 0.84}, "RR-on-Bins: each of 12"),
        ({"laplace": 0.5}, "lowest error"),
    ],
)
def test_claims_about_trained_models_can_fail(scaled, broken):
    found = list(results.trained_claims(CRITEO, scaled_figures(**scaled), near_published=True))
    assert len(found) == 3
    failed = [claim.text for claim in found if not claim.holds]
    assert len(failed) == (broken is not None)
    assert all(broken in text for text in failed)


def test_what_was_not_tried_is_not_claimed():
    figures = {("rr-on-bins", 0.7): Measured(100.0, 1.0, 3), ("auto", 0.7): Measured(50.0, 1.0, 3)}
    assert not list(results.trained_claims(CRITEO, figures, near_published=True))


def test_a_claim_about_published_figures_can_fail():
    exact = {
        (method, epsilon): Measured(mean * (1.002 if epsilon == 3 else 1))
        for (column, method, epsilon), (mean, _) in CRITEO.published.items()
        if column == "mechanism" and mean
    }
    first, *_ = results.mechanism_claims(CRITEO, exact, {}, calibrated=True)
    assert not first.holds
    assert "0.200% at ε = 3" in first.detail


def test_a_difference_within_the_deviation_is_called_undecided():
    def found(sd: float):
        figures = {("rr-on-bins", 4.0): Measured(100.0, sd, 3), ("staircase", 4.0): Measured(101.0, 0.5, 3)}
        return next(results.trained_claims(CRITEO, figures, near_published=False))

    assert "undecided: staircase at ε = 4" in found(2.0).detail
    assert "undecided" not in found(0.5).detail
