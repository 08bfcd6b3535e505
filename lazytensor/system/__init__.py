"""The operating system: files, processes, signals, threads, terminals and command lines."""
