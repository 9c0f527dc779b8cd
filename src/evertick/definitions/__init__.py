"""Which jobs the files of a folder define: YAML in, jobs or errors with their lines out."""
