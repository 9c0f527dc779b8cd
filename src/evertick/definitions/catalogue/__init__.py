"""Which fields there are: the tables that the parser, the schema for editors and the pages are made from."""
