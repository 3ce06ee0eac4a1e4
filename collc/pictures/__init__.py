"""Pictures as SVG: charts of numbers, networks and schedules. One style for light and dark pages, for print and PNG."""
