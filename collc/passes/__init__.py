"""Passes from module to module, and pipelines of them."""
