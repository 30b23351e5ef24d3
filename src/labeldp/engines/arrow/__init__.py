"""The engine for one machine: it reads files in batches and sorts rows on disk, so memory does not grow with the rows.

`arrow_input` implements the passes of a release, `source` reads files of labels, `input_report` lists all errors of an
input, and `spill` sorts rows by their ids.
"""
