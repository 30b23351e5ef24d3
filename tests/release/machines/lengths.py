"""How long the machines run: hundreds of steps or thousands, the same ones in every run."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, settings

ANY_MACHINE = settings(deadline=None, suppress_health_check=list(HealthCheck), print_blob=True, derandomize=True)
"""A step writes files, so how long it takes says nothing."""


def few_steps(*, examples: int) -> settings:
    """Twenty steps an example. A failure is not shortened, which takes minutes."""
    return settings(ANY_MACHINE, max_examples=examples, stateful_step_count=20, phases=[Phase.generate])


def many_steps(*, examples: int, steps: int) -> settings:
    """As many steps as asked for. A failure is shortened."""
    return settings(ANY_MACHINE, max_examples=examples, stateful_step_count=steps)
