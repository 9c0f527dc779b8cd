"""How Evertick is proven."""
