"""The database of the history: connections, tables, rows."""
