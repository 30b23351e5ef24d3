"""Releases by the labels party: `privatize` makes a message, `apply` adds to it, the ledger charges for it.

`flow`, and `add_batch` in `apply`, work on any engine.
"""
