"""The home of another agent, built from its format: its sessions, and our cache and pins for
them."""
