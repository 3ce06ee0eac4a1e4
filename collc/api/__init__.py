"""The Python API. `import collc` exports it; docs/python.md shows it."""
