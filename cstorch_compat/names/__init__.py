"""Which names there are, under which spelling and in which release: the shim, the facades, the manifest."""
