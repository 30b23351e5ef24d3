"""The labels party's job on files: input checks, ledger, key file, the state of an open release, `privatize`, `apply`.

May import `engines`, `message`, `randomizer` and below. Known to `training` (for the ledger) and the command line.
"""
