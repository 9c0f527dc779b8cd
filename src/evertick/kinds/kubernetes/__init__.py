"""A container on a cluster: its Job, its outcome, and the process that watches one for a step."""
