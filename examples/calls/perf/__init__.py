"""What is measured here: what PyTorch, Triton and CuPy launch by themselves, on a stream that they are given."""

from perf.rows import SOFTMAX
from perf.sums import TOTAL
from perf.vectors import ADD

FAMILIES = (SOFTMAX, ADD, TOTAL)
