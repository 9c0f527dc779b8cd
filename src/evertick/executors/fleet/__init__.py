"""Running attempts on other machines: the workers of a Dask cluster are members, each with a keeper of its own."""
