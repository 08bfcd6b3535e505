"""`cerebras.pytorch`: the module path is the file path."""
