"""`cerebras.pytorch.distributed`."""
