"""The configuration of Sphinx; `python docs/site_pages.py DIR` builds the site."""

project = "collc"
author = "collc developers"
extensions = ["myst_parser", "sphinx_llms_txt"]
html_theme = "furo"
html_title = "collc"
html_show_copyright = False
smartquotes = False
myst_heading_anchors = 4
llms_txt_summary = "A language and compiler for collective communication: verified schedules for real runtimes."
suppress_warnings = ["misc.highlighting_failure"]  # programs that are wrong on purpose
