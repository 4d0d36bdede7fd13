"""Plugins that prefer or require clusters by what they are, and by what is on them."""
