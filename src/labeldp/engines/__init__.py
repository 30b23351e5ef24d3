"""Engines stream records through the steps of a release, however many there are. They contain no mathematics.

Each engine has a folder (`arrow/`) with a `LabelInput`, which is all that `release` asks of an engine. What they share lies
beside it: `label_input` and `scan` say what goes between engine and release, `columns` checks ids and labels, `batches` draws one
batch, `fingerprint` recognises an input. May import `message`, `mechanisms` and below. Known to `release`.
"""
