"""The parts of `benchmarks/soak.py`: commands and their processes, faults, disks, and what an outsider may see."""
