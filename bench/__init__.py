"""How fast Evertick is, measured beside the libraries people use today."""
