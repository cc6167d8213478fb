"""Runs code that this user did not write where it reaches nothing that judges it."""
