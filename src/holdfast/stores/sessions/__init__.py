"""What every store of sessions says alike, whatever its database: how a message lies in a row, what
a search means, how totals and the ledger are counted."""
