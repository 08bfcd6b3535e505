"""Tensors, storages and captured steps; element types, devices, source locations and automatic casts."""
