"""Export of graphs to binary formats of other tools (ONNX)."""
