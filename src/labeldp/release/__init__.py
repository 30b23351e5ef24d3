"""The labels party's job on files: `privatize` makes a message, `apply` adds to it, the ledger charges for it.

`flow` and `add_batch` in `apply` do it on any engine.
"""
