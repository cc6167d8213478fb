"""Compiler of the software device: the stand-in for nvcc, its modules, and the source of the stand-in for NVRTC.

``nvcc`` is started as a program for each compilation. Its modules import each other by plain names, from this folder.
"""
