"""Images and the registry that holds them."""
