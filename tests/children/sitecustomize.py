"""Seeds the draws of Python processes that a page or a notebook starts: this folder is on their PYTHONPATH."""

import os

if "LABELDP_TEST_SEED" in os.environ:
    from seeded_words import seeded_draws

    seeded = seeded_draws(int(os.environ["LABELDP_TEST_SEED"]), any_processor=True)  # kept until the process ends
    seeded.__enter__()
