"""What leaves a worker when something fails there: the name of an error, never its text.

The text of a worker's exception goes into the logs of driver and executor and into the event log. Arrow's and NumPy's texts may
show the value that they stumbled over, so none of them gets out. Spark can also be set to show the variables of every function
that the exception went through (`spark.sql.execution.pyspark.udf.tracebackWithLocals.enabled`), so what gets out is raised
where no variable holds a label, and tasks do not show their secrets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

Batches = Iterator[pa.RecordBatch]

REPEATED = "labeldp: an id is repeated"
CHANGED = "labeldp: the input is not the one that was checked"
FAILED = "labeldp: a task failed with"


class WorkerError(Exception):
    """A failure on a worker. Its text is one of those above, and the driver knows what they mean."""


def guarded(task: Callable[[Batches], Batches]) -> Callable[[Batches], Batches]:
    """The task, whose exceptions say nothing of the data."""

    def run(batches: Batches) -> Batches:
        try:
            yield from task(batches)
        except WorkerError as error:
            text = str(error)
        except Exception as error:  # noqa: BLE001 - of any kind: its text must not get out
            text = f"{FAILED} {type(error).__name__}"
        else:
            return
        # outside the handlers, so that the first error and the variables round it are not shown with this one
        raise WorkerError(text)

    return run
