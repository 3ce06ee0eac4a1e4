"""The hot loops, compiled, on plain arrays: no objects, no IR."""
