"""The page: what is known of a script's steps as one HTML file, which needs no network and nothing beside it."""
