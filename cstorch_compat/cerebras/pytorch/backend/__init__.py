"""`cerebras.pytorch.backend`."""
