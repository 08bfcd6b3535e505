"""The public API of `torch.distributed`."""
