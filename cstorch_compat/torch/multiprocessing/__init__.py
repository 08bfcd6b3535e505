"""The public API of `torch.multiprocessing`."""
