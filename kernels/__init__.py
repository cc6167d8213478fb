"""The kernels of this repository. FAMILIES is the only list of them."""

from kernels.attention import ATTENTION, ATTENTION_CAUSAL
from kernels.conv2d import CONV2D
from kernels.copy import COPY
from kernels.hello import HELLO
from kernels.histogram import HISTOGRAM
from kernels.layernorm import LAYERNORM
from kernels.matmul import MATMUL
from kernels.matmul_3xtf32 import MATMUL_3XTF32
from kernels.matmul_half import MATMUL_HALF
from kernels.matvec import MATVEC
from kernels.reduce import REDUCE
from kernels.scan import SCAN
from kernels.separable import SEPARABLE
from kernels.softmax import SOFTMAX
from kernels.transpose import TRANSPOSE
from warpwatch import Family

FAMILIES: tuple[Family, ...] = (
    HELLO,
    COPY,
    MATMUL,
    MATMUL_3XTF32,
    MATMUL_HALF,
    MATVEC,
    TRANSPOSE,
    CONV2D,
    SEPARABLE,
    REDUCE,
    SOFTMAX,
    LAYERNORM,
    SCAN,
    HISTOGRAM,
    ATTENTION,
    ATTENTION_CAUSAL,
)
