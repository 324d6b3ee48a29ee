"""The home of Hermes, an agent that Holdfast did not make."""
