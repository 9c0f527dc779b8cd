"""Real schedulers in real processes, and what happens when they are killed, stopped and starved."""
