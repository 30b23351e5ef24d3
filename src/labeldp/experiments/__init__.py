"""The paper's evaluation, reproduced: `labeldp reproduce` on the command line, `Reproduction` in Python."""

from __future__ import annotations

from labeldp.experiments.reproduction import Reproduction
from labeldp.experiments.tasks import Scale, Task, get_task

__all__ = ["Reproduction", "Scale", "Task", "get_task"]
