"""The placement controller: what users ask for becomes snapshots, and what became of it goes into their status."""
