"""The paper's evaluation, reproduced: `labeldp reproduce` on the command line, `Reproduction` in Python."""

from __future__ import annotations

from labeldp.paper.experiments.reproduction import Reproduction
from labeldp.paper.experiments.tasks import Scale, Task, get_task

__all__ = ["Reproduction", "Scale", "Task", "get_task"]
