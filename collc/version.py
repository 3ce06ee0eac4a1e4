"""The version, read by the build and by `collc --version`."""

from typing import Final

VERSION: Final = "0.1.0"
