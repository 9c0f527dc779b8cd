"""What `evertick doctor` looks at: each check says ok, warn or fail, and what to do next."""
