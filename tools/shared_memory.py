"""Opens another process's GPU memory: ``python shared_memory.py HANDLE DESCRIPTOR SIZE EXPECTED ANSWER``.

tools/confinement.py starts it. It prints three lines: whether CUDA starts, whether memory opens by an IPC handle, and
whether by a file descriptor. In each it looks for the number EXPECTED, and writes ANSWER.
"""

from __future__ import annotations

import ctypes
import struct
import sys
from collections.abc import Callable

DEVICE, PINNED, POSIX_FD, READ_WRITE, LAZY_PEERS = 1, 1, 1, 3, 1  # CUDA's numbers
Address = ctypes.c_uint64


class Handle(ctypes.Structure):
    """A handle of CUDA's IPC, which is passed by value."""

    _fields_ = (("reserved", ctypes.c_char * 64),)


class Driver:
    """The driver's functions, each of which raises RuntimeError where it fails."""

    def __init__(self) -> None:
        """Start CUDA on the first GPU. Raises OSError if no driver is installed."""
        self._library = ctypes.CDLL("libcuda.so.1")
        self._library.cuIpcOpenMemHandle_v2.argtypes = [ctypes.c_void_p, Handle, ctypes.c_uint]
        context = ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxSetCurrent", context)

    def call(self, name: str, *arguments: object) -> None:
        if code := getattr(self._library, name)(*arguments):
            raise RuntimeError(f"{name}: error {code}")

    def read(self, address: Address) -> int:
        value = ctypes.c_int()
        self.call("cuMemcpyDtoH_v2", ctypes.byref(value), address, ctypes.c_size_t(4))
        return value.value

    def write(self, address: Address, number: int) -> None:
        self.call("cuMemcpyHtoD_v2", address, ctypes.byref(ctypes.c_int(number)), ctypes.c_size_t(4))

    def allocated(self) -> tuple[Address, str]:
        """Return memory, and the handle that opens it, as hexadecimal digits."""
        address, handle = Address(), ctypes.create_string_buffer(64)
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(1 << 20))
        self.call("cuIpcGetMemHandle", handle, address)
        return address, handle.raw.hex()

    def exported(self) -> tuple[Address, int, int]:
        """Return memory, the file descriptor that opens it, and its size."""
        # type, handle types, location, Windows' metadata, flags
        form = struct.pack("=iiiiQQ", PINNED, POSIX_FD, DEVICE, 0, 0, 0)
        size, memory, descriptor = ctypes.c_size_t(), ctypes.c_uint64(), ctypes.c_int()
        self.call("cuMemGetAllocationGranularity", ctypes.byref(size), form, 0)
        self.call("cuMemCreate", ctypes.byref(memory), size, form, ctypes.c_uint64(0))
        self.call("cuMemExportToShareableHandle", ctypes.byref(descriptor), memory, POSIX_FD, ctypes.c_uint64(0))
        return self._mapped(memory, size.value), descriptor.value, size.value

    def by_handle(self, handle: str) -> Address:
        address = Address()
        opened = Handle.from_buffer_copy(bytes.fromhex(handle))
        self.call("cuIpcOpenMemHandle_v2", ctypes.byref(address), opened, LAZY_PEERS)
        return address

    def by_descriptor(self, descriptor: int, size: int) -> Address:
        memory = ctypes.c_uint64()
        words = ctypes.c_void_p(descriptor), POSIX_FD
        self.call("cuMemImportFromShareableHandle", ctypes.byref(memory), *words)
        return self._mapped(memory, size)

    def _mapped(self, memory: ctypes.c_uint64, size: int) -> Address:
        address, bytes_, none = Address(), ctypes.c_size_t(size), ctypes.c_uint64(0)
        self.call("cuMemAddressReserve", ctypes.byref(address), bytes_, ctypes.c_size_t(0), none, none)
        self.call("cuMemMap", address, bytes_, ctypes.c_size_t(0), memory, none)
        self.call("cuMemSetAccess", address, bytes_, struct.pack("=iii", DEVICE, 0, READ_WRITE), ctypes.c_size_t(1))
        return address


def main() -> None:
    handle, (descriptor, size, expected, answer) = sys.argv[1], map(int, sys.argv[2:6])
    try:
        driver = Driver()
    except (OSError, RuntimeError) as error:
        sys.exit(str(error))
    print("yes")
    ways: tuple[Callable[[], Address], ...]
    ways = (lambda: driver.by_handle(handle)), (lambda: driver.by_descriptor(descriptor, size))
    for get in ways:
        try:
            address = get()
            found = driver.read(address)
            driver.write(address, answer)
            print("yes" if found == expected else f"another value, {found}")
        except RuntimeError as error:
            print(error)


if __name__ == "__main__":
    main()
