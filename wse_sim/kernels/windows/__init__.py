"""Kernels over windows of images: convolutions and pooling."""
