"""Commands that run until they are interrupted, and the migration before them."""
