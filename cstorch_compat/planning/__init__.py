"""Planning: record a script's training step without computing values, and predict its speed on Cerebras systems."""
