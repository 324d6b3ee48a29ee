"""The home of another agent, built from its format: its sessions, and what we remember of them."""
