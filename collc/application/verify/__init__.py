"""`collc verify`: any file, checked against the collective that it is to do."""
