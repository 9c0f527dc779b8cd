"""What a pod is: its Job on the cluster, what becomes of it, and the process that attends to one for a step."""
