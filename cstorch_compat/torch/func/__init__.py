"""`torch.func`."""
