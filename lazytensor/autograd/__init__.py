"""Gradients: the graph of derivatives, what backward saves, hooks, functions with a backward of their own."""
