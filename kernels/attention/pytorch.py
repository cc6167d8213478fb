"""Calls PyTorch's attention: its flash attention, and cuDNN's. Both make a tensor of their own, copied to o."""

from __future__ import annotations

from collections.abc import Callable

from warpwatch import DeviceArray, Queue

LOADED = 16  # bytes that both load at a time, and do not ask whether an array starts at a multiple of them
Prepare = Callable[[DeviceArray, DeviceArray, DeviceArray, DeviceArray, int, int, int, int], Queue]


def _preparing(backend: str, causal: bool) -> Prepare:
    """Return what prepares a call of one of PyTorch's implementations."""

    def prepare(
        q: DeviceArray, k: DeviceArray, v: DeviceArray, o: DeviceArray, stream: int, heads: int, n: int, d: int
    ) -> Queue:
        import torch  # noqa: PLC0415  # where it is not installed, its calls are skipped
        from torch.nn import attention  # noqa: PLC0415

        inputs = [torch.from_dlpack(array).view(1, heads, n, d) for array in (q, k, v)]
        result, queue_on = torch.from_dlpack(o).view(1, heads, n, d), torch.cuda.ExternalStream(stream)

        def queue() -> None:
            with torch.cuda.stream(queue_on), attention.sdpa_kernel(getattr(attention.SDPBackend, backend)):
                aligned = [each if each.data_ptr() % LOADED == 0 else each.clone() for each in inputs]
                result.copy_(torch.nn.functional.scaled_dot_product_attention(*aligned, is_causal=causal))

        return queue

    return prepare


# Of flash attention and of cuDNN's; causal or not.
PREPARE = {
    causal: tuple(_preparing(f"{kind}_ATTENTION", causal) for kind in ("FLASH", "CUDNN")) for causal in (False, True)
}
