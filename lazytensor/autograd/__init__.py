"""Automatic differentiation: gradient graphs, saved tensors, hooks, gradient modes and custom autograd functions."""
