"""The static check of names and types, before evaluation."""
