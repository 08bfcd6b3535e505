"""`lazywafer check`: trace the first step of a script, and list all that the system would refuse or trip over.

`rules` is the table of what can be found; `calls`, `graph` and `reading` find it in the calls of the step, in its graph
and in the text of the script; `session` and `plain` decide what the step is; `report` says it.
"""
