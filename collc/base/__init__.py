"""Modules that all other folders may import: units, messages, options, reading and writing files."""
