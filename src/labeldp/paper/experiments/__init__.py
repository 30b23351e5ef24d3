"""The paper's evaluation: `labeldp reproduce` on the command line, `Reproduction` in Python.

`tasks` has the three experiments and what they compare, `trainings` trains the models, `reproduction` compares figures, and `figures`
draws them.
"""

from labeldp.paper.experiments.reproduction import Reproduction
from labeldp.paper.experiments.tasks import Scale, Task, get_task

__all__ = ["Reproduction", "Scale", "Task", "get_task"]
