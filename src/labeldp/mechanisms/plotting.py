"""Pictures of mechanisms: their outputs over the prior, or the joint density of true and private labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from labeldp import plots
from labeldp.domain import Domain
from labeldp.errors import InvalidInput, described
from labeldp.mechanisms.registry import MECHANISMS
from labeldp.priors import Prior

if TYPE_CHECKING:
    from matplotlib.axes import Axes

JOINT_CELLS = 80


def plot_mechanism(mechanism: Any, prior: Prior | None, view: str, ax: Axes | None) -> Axes:
    """Draw a mechanism, as `Mechanism.plot` documents."""
    known = prior if prior is not None else getattr(mechanism, "prior", None)
    name = f"{type(mechanism).__name__}, ε = {mechanism.epsilon:.4g}"
    if view == "bins":
        if not mechanism.exact:
            raise InvalidInput(f"{mechanism.kind} does not have bins: use view='joint'")
        entry = MECHANISMS.get(mechanism.kind)
        return plots.bins(
            mechanism.outputs,
            getattr(mechanism.encoder, "thresholds", np.empty(0)),
            None if known is None else (known.values, known.masses),
            chances=None if known is None else mechanism.output_chances(known),
            colour=plots.CURVES[0] if entry is None else entry.colour,
            title=f"{name}: {mechanism.outputs.size} outputs",
            ax=ax,
        )
    if view != "joint":
        raise InvalidInput(f'view must be "bins" or "joint", got {described(view)}')
    if known is None:
        raise InvalidInput("the joint density needs a prior: plot(prior, view='joint')")
    frame = mechanism.domain or Domain(float(known.values[0]), float(known.values[-1]))
    edges = np.linspace(frame.lower, frame.upper, JOINT_CELLS + 1)
    held = known.masses > 0
    labels = known.values[held], known.masses[held]
    title = f"{name}\nMSE {mechanism.expected_loss(known):,.1f}"
    outputs, chances = mechanism.output_rows(labels[0], edges)
    return plots.joint(labels, outputs, chances, edges, title=title, ax=ax)
