"""Noisy sums of labels instead of noisy labels, for one team that holds features and labels.

`SumQueries` holds the labels and answers with exact noise; `PrivateSums` is what may be handed on. Everything else in this room is
post-processing of such answers with public features.

May import `release` and below.
"""
