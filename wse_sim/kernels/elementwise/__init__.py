"""Kernels over elements: arithmetic, random numbers, elements read and written by number."""
