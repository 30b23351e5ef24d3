"""Engines stream records through the steps of a release, however many there are. They contain no mathematics.

Each engine has a folder (`arrow/`). What they share lies beside it: `columns` checks ids and labels, `batches` draws
one batch, `fingerprint` recognises an input. May import `message`, `mechanisms` and below. Known to `release`.
"""
