"""The features party: features in, private labels joined by id, learners sized for their noise, models saved.

May import `evaluation`, `release`, `message` and below. Knows nothing of `paper` or the command line.
"""
