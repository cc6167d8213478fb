"""Subcommands of ``warpwatch``: a module each, of the same name, which main.py lists."""
