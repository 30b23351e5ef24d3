"""The engine for one machine: files in batches, rows spilled to disk by id, memory that stays flat as rows grow.

`engine` has the passes over the input, `source` reads files, `spill` brings rows into the order of their ids.
"""
