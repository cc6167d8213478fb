"""Tests of softcuda."""
