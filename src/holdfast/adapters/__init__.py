"""Holdfast behind the interfaces of other libraries. Each is loaded only by who imports it."""
