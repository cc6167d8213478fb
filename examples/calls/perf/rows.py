"""PyTorch's softmax of the rows of a matrix."""

import numpy as np

import warpwatch as ww


def softmax(x, part=slice(None)):
    """Return the softmax of the rows ``part``, in float64."""
    powers = np.exp(x[part].astype(np.float64) - x[part].max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def torch_softmax(x, y, stream):
    """Queue PyTorch's softmax; ``out`` keeps it from allocating the result."""
    import torch

    with torch.cuda.stream(torch.cuda.ExternalStream(stream)):
        torch.softmax(torch.as_tensor(x, device="cuda"), dim=1, out=torch.as_tensor(y, device="cuda"))


SOFTMAX = ww.Family(
    "softmax",
    sizes=("m", "n"),
    dtypes=("float32", "float64"),
    arrays=lambda m, n: {"x": ww.In((m, n)), "y": ww.Out((m, n))},
    reference=softmax,
    tolerance=ww.ulp(8),
    work=lambda m, n, itemsize: ww.Work(5 * m * n, 2 * m * n * itemsize),
    tests=((1, 1), (17, 33), (5, 4099)),
    benchmarks=((1024, 1000), (8192, 8192)),
    variants=(ww.call("torch", "torch.softmax", needs="torch", function=torch_softmax),),
)
