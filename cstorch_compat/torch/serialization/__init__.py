"""`torch.save`, `torch.load` and `torch.serialization`: objects of any class, and older formats."""
