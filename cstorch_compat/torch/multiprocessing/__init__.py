"""`torch.multiprocessing`."""
