"""Holdfast in the loop of other agents, through their own hooks.

`agents` knows the input and output formats of each agent's hooks. `client` is the program that an
agent starts: it asks the `helper`, or does the work itself if there is none.
"""
