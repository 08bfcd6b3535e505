"""Where each number lies in the geometry that compiled recurrent layers read."""

STEPS, BATCH, HIDDEN, IS_REVERSE, EACH, PACKERS, IS_RELU = range(7)
"""Times, sequences, units of a layer, its direction, sequences of a part, parts that pack the weight, its function."""
SLACK = 64  # elements that the widest tile may write past the end of a row
