"""Parses `.coll` text into a syntax tree, with recovery after errors."""
