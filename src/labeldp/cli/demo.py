"""`labeldp demo`: a private prior, the bins it leads to, and how the mechanisms compare."""

from __future__ import annotations

from typing import Annotated

import typer

from labeldp.cli.console import out


def run(
    epsilon: Annotated[float, typer.Option(help="The privacy budget of one label.")] = 1.0,
    rows: Annotated[int, typer.Option(min=1000, help="How many labels to generate.")] = 300_000,
) -> None:
    """Randomize generated purchase values and show what it costs.

    Labels follow the distribution of the Criteo sponsored search log (0 to 400 euros), as the paper uses it.

    Example: labeldp demo --epsilon 0.5
    """
    import numpy as np

    from labeldp.data import criteo_prior
    from labeldp.domain import Domain
    from labeldp.randomizer import LabelRandomizer

    truth = criteo_prior()
    labels = np.random.default_rng(0).choice(truth.values, rows, p=truth.masses)
    domain = Domain(0, 400, cells=401)
    out.rule("[bold]labels party")
    randomizer = LabelRandomizer(epsilon, domain)
    private = randomizer.randomize(labels)
    mechanism = private.mechanism
    _, split = randomizer.plan(rows)
    if split is not None:
        out.print(
            f"{rows:,} labels, ε = {epsilon:g}: ε₁ = {float(split.prior):.4f} for a private prior, the rest for the labels"
        )
    out.print(f"bins     {', '.join(f'{output:.1f}' for output in mechanism.outputs)}")
    out.print(f"borders  {', '.join(f'{t:.1f}' for t in mechanism.encoder.to_json()['thresholds']) or '(none)'}")
    proof = mechanism.proof()
    out.print(f"proof    {proof}")
    error = float(np.mean((private.values() - labels) ** 2))
    out.print(f"squared error of the private labels: {error:,.0f} (expected {mechanism.expected_loss(truth):,.0f})")
    _compare(domain)


def _compare(domain: object) -> None:
    from rich.table import Table

    from labeldp.data import criteo_prior, published_criteo
    from labeldp.domain import Domain
    from labeldp.mechanisms import DiscreteLaplace, DiscreteStaircase, Exponential, Laplace, RROnBins

    assert isinstance(domain, Domain)
    prior = criteo_prior()
    paper = {row.epsilon: row for row in published_criteo()}
    table = Table(
        title="expected squared error of a private label (the paper's figures in brackets)", title_justify="left"
    )
    for column in ("ε", "RR-on-Bins", "Laplace", "discrete Laplace", "staircase", "exponential"):
        table.add_column(column, justify="right")
    for epsilon in (0.5, 1.0, 2.0, 4.0, 8.0):
        figures = paper[epsilon]
        ours = RROnBins.optimal(prior, epsilon).expected_loss(prior)
        laplace = Laplace(domain, epsilon).expected_loss(prior)
        table.add_row(
            f"{epsilon:g}",
            f"{ours:,.0f} ({figures.mechanism_rr_on_bins:,.0f})",
            f"{laplace:,.0f} ({figures.mechanism_laplace:,.0f})",
            *(
                f"{kind(domain, epsilon).expected_loss(prior):,.0f}"
                for kind in (DiscreteLaplace, DiscreteStaircase, Exponential)
            ),
        )
    out.print(table)
