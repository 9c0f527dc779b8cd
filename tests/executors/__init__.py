"""Whether executors keep their contract."""
