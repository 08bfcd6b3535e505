"""Phase programs of kernels that were published with their measurements, written by hand.

Unlike a recipe, such a program starts from no CIRH: it takes the extents of the problem and says what the authors'
kernel does. It is what the validation prices, and can be run as data or cycle by cycle like any other phase program.
"""
