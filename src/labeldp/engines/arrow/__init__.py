"""The engine for one machine: it reads files in batches and sorts rows on disk, so memory stays flat as rows grow.

`engine` makes the passes over the input, `source` reads files, `spill` sorts rows by their ids.
"""
