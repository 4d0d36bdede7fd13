"""The embedded hub's database."""
