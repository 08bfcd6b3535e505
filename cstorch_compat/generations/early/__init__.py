"""What releases 1.8 to 2.3 had and the latest one has not: other signatures, and names that were removed.

`releases.RELEASE_ROWS` says which of it a script sees.
"""
