"""The ISPD-2020 contest, as a client of the placer: its problems, costs and scores."""
