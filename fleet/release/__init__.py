"""Release tags: their grammar and order, and the tool that claims, publishes and checks them."""
