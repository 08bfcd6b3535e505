"""What `cerebras.appliance`, and `cerebras_appliance` before it, offer to scripts: no cluster stands behind it."""
