"""The paper's apparatus: its data, experiments and reproduction, its network, Algorithm 2, the LP, signatures, the demo.

Nothing that a release or a model needs lives here.
"""
