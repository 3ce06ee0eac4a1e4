"""`python -m collc`: the command line."""

from collc.command.cli import main

raise SystemExit(main())
