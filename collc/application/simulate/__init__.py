"""`collc simulate`: programs, schedules, files and traces in time."""
