"""From demand to schedule: one way of doing it a file."""
