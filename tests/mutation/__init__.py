"""Tests of the planted mistakes."""
