"""`collc compile`: a program to verified schedules and their files."""
