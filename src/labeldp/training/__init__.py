"""The features party: read features, join private labels by id, size a learner for their noise, train, save.

May import `evaluation`, `release`, `message` and below. Knows nothing of `paper` or the command line.
"""
