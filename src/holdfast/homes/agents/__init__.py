"""The homes of agents, one module each: how a home is laid out, and what the formats share."""
