"""What every other package may import: units, messages, names in messages, reading and writing files."""
