"""What people who work on Holdfast run by hand. None of it is installed."""
