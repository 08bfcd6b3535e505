"""Looking at a run: summaries, event files, profiles, progress and rates."""
