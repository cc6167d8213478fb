"""Implements the subcommands of ``warpwatch``, a module for each subject."""
