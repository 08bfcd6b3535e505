"""Planning: a script's training step recorded from types alone, and what systems would take for it."""
