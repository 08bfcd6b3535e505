"""`torch.nn.utils`."""
