"""Kernels over rows: softmax, losses and normalizations."""
