"""What the command line and the Python API both call: from a file to schedules, checks and written files."""
