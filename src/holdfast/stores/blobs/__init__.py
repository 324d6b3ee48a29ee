"""Stores of blobs, each an implementation of the port `Blobs`."""
