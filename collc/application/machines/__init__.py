"""`collc import`: files that describe machines, as programs."""
