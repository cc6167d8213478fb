"""Tests of what a pull request is told: results, annotations, the comment, and the actions that write it."""
