"""Real schedulers in real processes, which are killed, stopped and starved."""
