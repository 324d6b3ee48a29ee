"""The checkpoint store of a home: opened, measured, bounded and moved."""
