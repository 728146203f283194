"""Entry points for coding agents: `tersely run` and `tersely hook`.

Each process handles one result and ends, thousands of times a day, so its modules import
nothing at the top but the standard library's cheap parts; what a large result needs is
imported when there is one. None of them may break the agent: after any error of ours the
original passes.
"""
