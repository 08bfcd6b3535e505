"""Rectangles for blocks: shape curves, a slicing tree that keeps their order, and a search for short wires.

The placer knows neither layers nor kernels: it is given, for each block, the least height for every width.
"""
