"""The decision history's database."""
