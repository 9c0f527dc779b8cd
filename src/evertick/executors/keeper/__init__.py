"""The process that starts runs on this machine and watches them to their end, whatever happens to the scheduler."""
