"""What private labels alone tell about a model: errors, gains and means with intervals, and scores against true labels.

May import `mechanisms` and below. Known to `training` and everything above it.
"""
