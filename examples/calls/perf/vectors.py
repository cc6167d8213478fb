"""A Triton kernel twice: launched by Triton, and as machine code that Warpwatch launches."""

import warpwatch as ww

BLOCK = 1024
WARPS = 8


def triton_add(x, y, out, n, stream):
    """Queue the kernel by Triton's own launcher, which takes PyTorch's current stream."""
    import torch

    from perf.triton_add import add

    with torch.cuda.stream(torch.cuda.ExternalStream(stream)):
        tensors = [torch.as_tensor(array, device="cuda") for array in (x, y, out)]
        add[(-(-n // BLOCK),)](*tensors, n, BLOCK=BLOCK, num_warps=WARPS)


def add_cubin(arch):
    """Compile the kernel for an architecture such as sm_90, which needs no GPU. Returns the machine code."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from perf.triton_add import add

    types = {"x": "*fp32", "y": "*fp32", "out": "*fp32", "n": "i64", "BLOCK": "constexpr"}
    target = GPUTarget("cuda", int(arch.removeprefix("sm_")), 32)
    source = ASTSource(fn=add, signature=types, constexprs={"BLOCK": BLOCK})
    return triton.compile(source, target=target, options={"num_warps": WARPS}).asm["cubin"]


ADD = ww.Family(
    "add",
    sizes=("n",),
    arrays=lambda n: {"x": ww.In(n, "float32"), "y": ww.In(n, "float32"), "out": ww.Out(n, "float32")},
    reference=lambda x, y: x + y,  # rounded once, as the kernel does: equal to the bit
    exact=True,
    tests=((1,), (33,), (70001,)),
    benchmarks=((1_000_000,), (100_000_000,)),
    variants=(
        ww.call("triton", "launched by Triton", needs=("torch", "triton"), function=triton_add),
        ww.kernel(
            "cubin",
            "Triton's machine code, without its launcher",
            needs="triton",
            source=add_cubin,
            entry="add",
            configurations=((32 * WARPS,),),
            grid=lambda n: ww.blocks(n, BLOCK),
            # Triton 3.6 gives each kernel two more pointers, which this one does not use.
            arguments="x y out n:int64 scratch:uint64=0 profile:uint64=0",
        ),
    ),
)
