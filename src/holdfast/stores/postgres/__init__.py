"""Sessions in PostgreSQL: many machines, one store."""
