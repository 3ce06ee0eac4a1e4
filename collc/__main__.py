"""`python -m collc`: the command line."""

from collc.cli import main

raise SystemExit(main())
