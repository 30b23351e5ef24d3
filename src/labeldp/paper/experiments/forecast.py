"""How long trainings will take."""

import joblib

from labeldp.paper.experiments.training import TrainingSetup


def forecast(setup: TrainingSetup, trainings: int, processes: int) -> str:
    """Say how long trainings will take, estimated from a short training that uses all cores."""
    idle = 1.0 if processes == 1 else max(1.0, joblib.cpu_count() / processes)  # one process has a thread for each core
    seconds = trainings * setup.seconds_per_run() * idle
    passes = f" × {setup.epochs} epochs" if setup.model == "network" else ""
    return (
        f"{trainings} trainings of {len(setup.dataset) * 4 // 5:,} rows{passes} in "
        f"{processes} process{'es' if processes > 1 else ''}: about {duration(seconds)} at the speed measured just now. "
        "They can be interrupted and resumed."
    )


def duration(seconds: float) -> str:
    """A time in words, rounded as an estimate is."""
    if seconds < 90:
        return f"{max(1, round(seconds))} seconds"
    if seconds < 5400:
        return f"{round(seconds / 60)} minutes"
    if seconds < 172_800:
        return f"{seconds / 3600:.1f} hours"
    return f"{seconds / 86_400:.1f} days"
