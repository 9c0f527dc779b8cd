"""Running attempts as Jobs of a Kubernetes cluster."""
