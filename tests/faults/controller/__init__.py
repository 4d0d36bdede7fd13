"""A whole controller against faults: what can go wrong, what must hold meanwhile, and where everything has to end."""
