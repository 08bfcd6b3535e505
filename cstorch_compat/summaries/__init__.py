"""Summaries of a run in TensorBoard's event files, and tensors in HDF5 files."""
