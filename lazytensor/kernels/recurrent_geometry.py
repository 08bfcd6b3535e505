"""Indices of the numbers in the geometry that compiled recurrent layers read."""

STEPS, BATCH, HIDDEN, IS_REVERSE, EACH, PACKERS, IS_RELU = range(7)
"""Time steps; sequences in the batch; hidden units; 1 for the reverse direction; sequences per part; parts that pack
the weight; 1 for ReLU in place of tanh.
"""
SLACK = 64  # elements that the widest tile may write past the end of a row
