"""The paper's evaluation: `labeldp reproduce` on the command line, `Reproduction` in Python.

`definitions` has the three experiments, `methods` what they compare, `exact` and `training` the two kinds of figures.
"""

from labeldp.paper.experiments.reproduction import Reproduction
from labeldp.paper.experiments.tasks import Scale, Task, get_task

__all__ = ["Reproduction", "Scale", "Task", "get_task"]
