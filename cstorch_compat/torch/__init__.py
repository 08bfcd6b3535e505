"""What `torch` has beside the names of lazytensor."""
