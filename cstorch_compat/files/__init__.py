"""Files of tensors: checkpoints in HDF5, safetensors files, and the trees of values in them."""
