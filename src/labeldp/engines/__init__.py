"""Engines run the labels party's steps on data that does not fit in memory. They own no mathematics."""
