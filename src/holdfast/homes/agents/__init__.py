"""One module per agent, with the layout of its home, and what these formats share."""
