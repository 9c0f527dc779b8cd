"""Which fields a definition has, one module per group of fields that are read together."""
