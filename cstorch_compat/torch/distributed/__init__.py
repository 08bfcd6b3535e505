"""`torch.distributed`."""
