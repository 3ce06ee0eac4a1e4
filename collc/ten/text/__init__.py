"""The text form of TEN modules (docs/ten.md): `format_module`, `write_module`, `parse_module`."""

from collc.ten.text.read import parse_module
from collc.ten.text.write import format_module, write_module

__all__ = ["format_module", "parse_module", "write_module"]
