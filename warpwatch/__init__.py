"""Measures CUDA kernels: are they right, did they get slower, how far are they from what the hardware allows?"""

__version__ = "0.1.0"
