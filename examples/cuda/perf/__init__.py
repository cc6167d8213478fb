"""What is measured here: ten families of kernels, each declared once."""

from perf.elementwise import RESIDUAL_GELU, SAXPY
from perf.grids import STENCIL
from perf.products import PRODUCT, SPMV
from perf.rows import LAYERNORM, SOFTMAX
from perf.sums import HISTOGRAM, SCAN, SUM

FAMILIES = (SOFTMAX, LAYERNORM, SUM, HISTOGRAM, SAXPY, SCAN, PRODUCT, STENCIL, SPMV, RESIDUAL_GELU)
