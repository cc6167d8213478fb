"""Reads and writes saved runs."""
