"""Steps that the batches of a source go through as they are read."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields

from labeldp.engines.arrow.source import LabelSource
from labeldp.engines.batches import LabelBatch

Step = Callable[[Iterator[LabelBatch]], Iterator[LabelBatch]]
"""Something that is done with the batches as they are read. A check passes them on and raises if it finds a fault."""


@dataclass(frozen=True)
class SourceWithSteps(LabelSource):
    """A source whose batches go through some steps, anew each time it is read."""

    steps: tuple[Step, ...] = ()

    def batches(self) -> Iterator[LabelBatch]:
        batches = super().batches()
        for step in self.steps:
            batches = step(batches)
        return batches


def with_step(source: LabelSource, step: Step) -> LabelSource:
    """`source` with one more step."""
    known = {field.name: getattr(source, field.name) for field in fields(source)}
    return SourceWithSteps(**known | {"steps": (*known.get("steps", ()), step)})
