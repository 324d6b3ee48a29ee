"""The home of Hermes, an agent with its own database and checkpoints."""
