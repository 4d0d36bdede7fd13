"""Services outside of the cluster: HTTP extenders that judge clusters."""
