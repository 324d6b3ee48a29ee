"""The command line. The only code that prints, or reads the environment, the clock or $HOME."""
