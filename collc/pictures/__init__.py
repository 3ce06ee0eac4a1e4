"""Pictures as SVG: charts of numbers, networks and schedules. One style for light and dark pages, for print and PNG."""

from typing import Final

PICTURES: Final = ("topology", "ten", "gantt", "heatmap", "load", "utilisation")
"""The single pictures of a schedule, by the names that `collc show --picture` takes."""

DESIGN_PICTURES: Final = ("bandwidths", "budgets", "speedup", "performance")
"""The same of a design."""
