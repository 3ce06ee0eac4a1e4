"""The static check: names and types, before anything is evaluated."""
