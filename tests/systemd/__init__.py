"""What only a machine with systemd shows: `make test-systemd` starts one in namespaces, as root."""
