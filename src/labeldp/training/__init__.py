"""The features party: read features, join private labels by id, size a learner for their noise, train, save.

May import `evaluation`, `release`, `message` and below. Does not import `paper` or the command line, except the network by name (`learners`, `stored`).
"""
