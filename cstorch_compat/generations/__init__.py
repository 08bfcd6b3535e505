"""What each generation of the API offers: `cstorch` its latest release, the others what older ones had beside it."""
