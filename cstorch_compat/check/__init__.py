"""`lazywafer check`: trace the first step of a script and list what the Cerebras system would refuse or mishandle.

`rules` is the table of possible findings. `watched_calls`, `graph` and `source_rules` search the function calls of the
step, its graph, and the source text of the script. `traced_session` and `plain_scripts` determine which code is the
step. `report` prints the findings.
"""
