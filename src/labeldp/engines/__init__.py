"""Engines stream rows through a release's steps, whatever their number. They own no mathematics.

One folder an engine (`arrow/`). May import `message`, `mechanisms` and below. Known to `release`.
"""
