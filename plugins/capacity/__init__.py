"""Plugins that compare what a placement needs with what clusters and quotas have."""
