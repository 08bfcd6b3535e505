"""Files of tensors: checkpoints in H5, safetensors, and the trees that they hold."""
