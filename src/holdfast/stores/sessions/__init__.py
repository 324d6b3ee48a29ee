"""Code that all stores of sessions share, whatever their database: the layout of a message in a
row, the meaning of a search, and how totals and the ledger are counted."""
