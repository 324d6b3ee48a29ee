"""Holdfast in the loop of other agents, through their own hooks.

`agents` knows what each of them says to a hook and which answer it understands. `client` is the
program that an agent starts: it asks the `helper`, and does the work itself when there is none.
"""
