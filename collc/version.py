"""The version, read by the build and by `collc --version`."""

__version__ = "0.1.0"
