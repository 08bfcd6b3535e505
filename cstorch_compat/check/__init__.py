"""`lazywafer check`: trace the first step of a script, and list all that the system would refuse or trip over.

`rules` is the table of what can be found; `watched_calls`, `graph` and `source_rules` find it in the calls of the
step, in its graph and in the text of the script; `traced_session` and `plain_scripts` decide what the step is;
`report` says it.
"""
