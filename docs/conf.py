"""The configuration of Sphinx; `python docs/site_pages.py DIR` builds the site."""

from sphinx.application import Sphinx

project = "collc"
author = "collc developers"
extensions = ["myst_parser", "sphinx_llms_txt"]
html_theme = "furo"
html_title = "collc"
html_show_copyright = False
smartquotes = False
myst_heading_anchors = 4
llms_txt_summary = "A language and compiler for collective communication: verified schedules for real runtimes."


def setup(app: Sphinx) -> None:
    """Show programs as plain text if there is no lexer for them."""
    from pygments.lexers import get_lexer_by_name
    from pygments.lexers.special import TextLexer
    from pygments.util import ClassNotFound

    try:
        get_lexer_by_name("coll")
    except ClassNotFound:
        app.add_lexer("coll", TextLexer)
