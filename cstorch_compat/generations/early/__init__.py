"""Names and signatures of releases 1.8 to 2.3 that the current release changed or removed.

`releases.RELEASE_ROWS` lists which of them a script of each release gets.
"""
