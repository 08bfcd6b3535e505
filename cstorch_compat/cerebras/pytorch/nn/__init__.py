"""Losses and operations of the wafer that PyTorch does not have."""
