"""What a core understands: programs of instructions, and how numbers lie in its memory."""
