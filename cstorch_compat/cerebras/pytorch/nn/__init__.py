"""The public API of `cerebras.pytorch.nn`: losses, modules and wafer operations that PyTorch does not have."""
