"""`python -m labeldp` is the command `labeldp`."""

from labeldp.cli import main

if __name__ == "__main__":
    main()
