"""The loop of a worker: one request a line, one answer a line. It knows nothing of labeldp, which peers' Pythons do not have.

A job is a function of keyword arguments, of numbers and texts that came as JSON and of arrays. It returns a dictionary of both kinds.
"""

import contextlib
import json
import os
import sys
from importlib.metadata import version


def serve(jobs, packages):
    """Answer requests until the input ends. What libraries print goes to standard error."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    jobs = {**jobs, "versions": lambda: {package: version(package) for package in packages}}
    folder, number = sys.argv[1], 0
    for line in sys.stdin:
        request = json.loads(line)
        given = dict(request["given"])
        if request["arrays"]:
            import numpy as np

            with np.load(request["arrays"]) as kept:
                given.update({key: kept[key] for key in kept.files})
        try:
            found = jobs[request["job"]](**given)
        except Exception as error:  # noqa: BLE001 - any failure of a peer is an answer
            answer = {"error": f"{type(error).__name__}: {error}"}
        else:
            arrays = {key: value for key, value in found.items() if hasattr(value, "dtype") and value.ndim}
            path = None
            if arrays:
                import numpy as np

                number += 1
                path = os.path.join(folder, f"answer-{number}.npz")  # noqa: PTH118
                np.savez(path, **arrays)
            answer = {"facts": {key: value for key, value in found.items() if key not in arrays}, "arrays": path}
        with contextlib.suppress(BrokenPipeError):
            answers.write(json.dumps(answer) + "\n")
            answers.flush()
