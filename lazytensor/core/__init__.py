"""Tensors, their storage, and the capture of a step; types, devices, errors' places, and automatic casts."""
