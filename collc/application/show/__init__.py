"""`collc show`: a report with pictures, as one page."""
