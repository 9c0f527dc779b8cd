"""The process that starts runs on this machine and sees them through, whatever becomes of the scheduler."""
