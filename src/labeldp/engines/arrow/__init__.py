"""The engine for one machine: it reads files in batches and sorts rows on disk, so memory stays flat as rows grow.

`arrow_input` has the passes that a release asks for, `source` reads files of labels, `input_report` lists all faults of an input, and
`spill` sorts rows by their ids.
"""
