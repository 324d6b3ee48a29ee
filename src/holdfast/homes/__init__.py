"""One module per agent: how its home is laid out. Homes translate; they do not decide."""
