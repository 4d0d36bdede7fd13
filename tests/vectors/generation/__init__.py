"""Random scenarios in the vector format, the same for the same seed."""
