"""The paper's evaluation: `labeldp reproduce` on the command line, `Reproduction` in Python.

`tasks` has the three experiments, `methods` what they compare, `trainings` trains the models, `results` compares figures.
"""

from labeldp.paper.experiments.reproduction import Reproduction
from labeldp.paper.experiments.tasks import Scale, Task, get_task

__all__ = ["Reproduction", "Scale", "Task", "get_task"]
