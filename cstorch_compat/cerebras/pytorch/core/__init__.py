"""`cerebras.pytorch.core`."""
