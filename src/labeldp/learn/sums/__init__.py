"""Models from noisy sums: public partitions of the records, the choice of sums, and the inference of effects from the answers."""
