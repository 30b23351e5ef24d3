"""How long the machines run: hundreds of steps, always the same ones, or thousands of new ones."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, settings

ANY_MACHINE = settings(deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
"""A step writes files, so how long it takes says nothing."""


def same_steps(*, examples: int) -> settings:
    """Twenty steps an example, the same in every run. A failure is not shortened, which takes minutes."""
    return settings(
        ANY_MACHINE, max_examples=examples, stateful_step_count=20, derandomize=True, phases=[Phase.generate]
    )


def new_steps(*, examples: int, steps: int) -> settings:
    """Other steps in every run. A failure is shortened."""
    return settings(ANY_MACHINE, max_examples=examples, stateful_step_count=steps)
