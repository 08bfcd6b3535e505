"""The ISPD-2020 contest as a client of the floorplanner: its problems, cost functions and scores."""
