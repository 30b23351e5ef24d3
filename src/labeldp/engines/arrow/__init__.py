"""The engine for one machine: it reads files in batches and sorts rows on disk, so memory stays flat as rows grow.

`arrow_input` is what a release asks, `engine` makes the passes over the input, `source` reads files, `spill` sorts rows by their
ids. Steps that batches go through on their way have a file each: `unchanged`, `repeated_ids`, `integer_ids`.
"""
