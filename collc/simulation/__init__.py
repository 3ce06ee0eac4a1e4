"""The simulator: tasks that wait for one another, and messages that queue at links."""
