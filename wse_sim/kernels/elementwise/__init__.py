"""Kernels over elements: arithmetic, random numbers, gather and scatter."""
