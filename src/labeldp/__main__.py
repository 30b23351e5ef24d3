"""`python -m labeldp` is the command `labeldp`."""

from labeldp.cli import main

main()
