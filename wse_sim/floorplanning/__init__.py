"""Floorplanning: shape curves, slicing trees that keep the order of blocks, and a search for short wires.

The placer is independent of layers and kernels. Its input is, for each block, the least height for every width.
"""
