"""The pytest plugin: what conftest.py gathers of it."""
