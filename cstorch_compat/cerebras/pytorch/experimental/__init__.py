"""`cerebras.pytorch.experimental`."""
