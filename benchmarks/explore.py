"""How long `labeldp explore` takes to answer after a control is moved: each section, by wall clock and by processor time.

Run: python benchmarks/explore.py [--labels 401,10000] [--moves 5]

Each move is new to every cache of the page: another ε ("ε moves"), or another distribution ("distribution moves"). A row is one section with all
that stands above it, in Python: what is computed, and the charts as they are sent to the browser. The browser's own time is not in it. The median
of the moves is shown, after one that warms up.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from statistics import median

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")  # before NumPy is imported

from labeldp.explore import answers, charts  # noqa: E402
from labeldp.explore.answers import Question, channel, reported  # noqa: E402
from labeldp.explore.exchange import Names, command, figure, python_call  # noqa: E402
from labeldp.explore.sidebar import COMPARED  # noqa: E402
from labeldp.mechanisms import prediction  # noqa: E402
from labeldp.plots.axes import image  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labels", default="401,10000")
    parser.add_argument("--moves", type=int, default=5)
    arguments = parser.parse_args()
    for labels in map(int, arguments.labels.split(",")):
        print(f"\n{labels:,} labels, auto: seconds (seconds of processor time)")
        print(f"{'section':<16}{'ε moves':>18}{'distribution moves':>22}{'loss absolute, ε moves':>26}")
        for name, section in SECTIONS.items():
            cells = [
                series(section, move, labels, arguments.moves)
                for move in (move_epsilon, move_distribution, move_epsilon_absolute)
            ]
            print(f"{name:<16}{cells[0]:>18}{cells[1]:>22}{cells[2]:>26}")
    print("\neach row has the sentence on top, and everything that the section shows")


def asked(labels: int, **parts: object) -> Question:
    return Question(lower=0, upper=labels - 1, whole=True, **parts)


def move_epsilon(labels: int, number: int) -> Question:
    return asked(labels, epsilon=round(1 + number / 100, 2), distribution=shape(labels, 0.2))


def move_epsilon_absolute(labels: int, number: int) -> Question:
    return asked(labels, epsilon=round(1 + number / 100, 2), distribution=shape(labels, 0.2), loss="absolute")


def move_distribution(labels: int, number: int) -> Question:
    return asked(labels, distribution=shape(labels, 0.2 + number / 1000))


def shape(labels: int, mean: float) -> str:
    return f"log-normal:mean={mean * labels:.6g},sd={0.225 * labels:.6g}"


def timed(section: Callable[[Question], None], question: Question) -> tuple[float, float]:
    start, used = time.perf_counter(), time.process_time()
    answers.headline(question)
    section(question)
    return time.perf_counter() - start, time.process_time() - used


def series(section: Callable[[Question], None], move: Callable[[int, int], Question], labels: int, moves: int) -> str:
    """The median of several moves after one that warms up. What an earlier series computed is forgotten."""
    for module in (answers, prediction):
        for function in vars(module).values():
            if hasattr(function, "cache_clear"):
                function.cache_clear()
    return shown([timed(section, move(labels, number)) for number in range(moves + 1)][1:])


def shown(times: list[tuple[float, float]]) -> str:
    wall, processor = (median(part) for part in zip(*times, strict=True))
    return f"{wall:.2f} ({processor:.2f})"


def which_epsilon(question: Question) -> None:
    charts.outlook_chart(answers.curve(question), answers.headline(question), question.epsilon, "r2", "auto").to_dict()


def outputs(question: Question) -> None:
    mechanism, labels = answers.designed(question).mechanism, question.merged
    chances = labels.masses @ mechanism.matrix(labels.values)
    charts.outputs_chart(mechanism, question.labels, chances, "auto").to_dict()


def one_label(question: Question) -> None:
    mechanism = answers.designed(question).mechanism
    charts.reports_chart(reported(mechanism, 80), reported(mechanism, 300), "auto").to_dict()


def whole_channel(question: Question) -> None:
    mechanism = answers.designed(question).mechanism
    charts.channel_chart(channel(mechanism, question.labels, (question.lower, question.upper))).to_dict()


def compare(question: Question) -> None:
    points, _ = answers.compared(question, COMPARED)
    for name in ("model_error", "expected_loss", "bias", "variance"):
        charts.comparison_chart(points, name, name, question.epsilon).to_dict()


def private_prior(question: Question) -> None:
    found = answers.simulated_prior(question, 1)
    answers.designed(question)
    charts.prior_chart(found.assumed, found.drawn).to_dict()


def take_away(question: Question) -> None:
    command(question, Names())
    python_call(question, Names())
    answers.designed(question).mechanism.to_json()
    image(figure("predicted error", question, label=80.0, names=COMPARED), "svg")


SECTIONS = {
    "Which ε": which_epsilon,
    "Reported values": outputs,
    "One label": one_label,
    "All labels": whole_channel,
    "Compare": compare,
    "Private histogram": private_prior,
    "Command and files": take_away,
}

if __name__ == "__main__":
    main()
