"""Random training loops of the documented parts of the API: `python -m tests.campaign loops N SEED`.

`drawing` draws a loop as data, `rendering` writes it as the script that a user would write, `serving` runs scripts,
`comparing` compares what they print, and `campaign` shrinks and prints what differs.
"""
