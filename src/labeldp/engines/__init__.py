"""Engines stream any number of records through the steps of a release. They contain no mathematics.

Each engine has a folder with a `LabelInput` (see `passes`). `batches` checks and draws one batch, and `fingerprint` recognises an
input.
"""
