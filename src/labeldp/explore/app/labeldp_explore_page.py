"""The script that Streamlit runs for every session of `labeldp explore`."""

import sys

from labeldp.explore.page import show

if __name__ == "__main__":
    show(sys.argv[1] if len(sys.argv) > 1 else None)
