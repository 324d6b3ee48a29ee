"""The command. The only code that prints, reads the environment, the clock or $HOME."""
