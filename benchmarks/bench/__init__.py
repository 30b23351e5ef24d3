"""What the parts of `make bench` share.

A part is a script of its own, `benchmarks/NAME.py`. It measures, and returns a `Result`: tables, contests and targets.

- `results`: tables and their text, markdown and JSON; contests between us and peers; targets.
- `timing`: several jobs timed turn by turn, their medians, and ratios within one run.
- `growth`: the exponent of a running time, with a confidence interval.
- `environments`: Python environments of the peers, and worker processes in them.
- `standing`: where a peer is ahead, and the sentence that must say so.
- `machine`: what it ran on, and the versions of everything.
- `part`: the command line that all parts share.
"""
