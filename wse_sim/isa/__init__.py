"""The instruction set of a core: programs of instructions, and how elements are stored in memory."""
