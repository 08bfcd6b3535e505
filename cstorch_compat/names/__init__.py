"""Which names there are, under which spelling and in which release: the table, the mirrors, the shim, the manifest."""
