"""The build of a wheel makes the manual page from the parser of the command line."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ManualPage(BuildHookInterface):
    """Adds `share/man/man1/collc.1` to a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the page, and say where it goes. version: "editable" for an installation of the checkout itself."""
        if version == "editable":
            return
        self._folder = tempfile.TemporaryDirectory()
        page = Path(self._folder.name) / "collc.1"
        page.write_text(manual_page(), encoding="utf-8")
        build_data["shared_data"][str(page)] = "share/man/man1/collc.1"

    def finalize(self, *_: object) -> None:
        """Remove the written page."""
        if hasattr(self, "_folder"):
            self._folder.cleanup()


def manual_page() -> str:
    """The page, in roff."""
    from argparse_manpage.manpage import Manpage

    sys.path.insert(0, str(Path(__file__).parent))
    from collc.command.cli import EXIT_CODES, parsers
    from collc.version import __version__

    parser, _ = parsers()
    parser.epilog = None
    page = Manpage(parser, format="single-commands-section")
    page.description = "compiler for collective communication"
    page.manual = "collc"
    page.source = f"collc {__version__}"
    page.add_section("exit status", "=", page.format_text(EXIT_CODES.removeprefix("Exit codes: ")))
    return str(page)
