"""The package `cerebras.pytorch`. The path of each public module matches its file path."""
