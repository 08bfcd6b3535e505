"""Operating system support: files, processes, signals, threads, terminals and command lines."""
