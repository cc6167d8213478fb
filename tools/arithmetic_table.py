"""Makes the table of what a GPU gives where C++ leaves arithmetic to the device or undefined.

``python -m tools.arithmetic_table`` runs the operations of tests/softcuda/arithmetic on the GPU here, prints where they
differ from what NVIDIA's documents say, and writes ``table.json`` there, which tests of the software device read.
``--documented``: writes what the documents say, where there is no GPU. ``--device software``: prints alone.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from tests.softcuda.arithmetic.operations import OPERATIONS, computed, documented, same, source
from warpwatch.devices.compile.compiler import compile_text
from warpwatch.devices.opening import Settings, open_device

TABLE = Path(__file__).resolve().parent.parent / "tests/softcuda/arithmetic/table.json"


def written(results: list[list[int]], device: str) -> str:
    """Return the table as JSON, an operation a line."""
    rows = [
        json.dumps(
            {"operation": operation.name, "source": operation.source, "results": [f"{word:x}" for word in words]}
        )
        for operation, words in zip(OPERATIONS, results, strict=True)
    ]
    return f'{{"device": {json.dumps(device)}, "operations": [\n' + ",\n".join(rows) + "\n]}\n"


def differences(results: list[list[int]]) -> list[str]:
    """Say where results differ from the documents, with operands, a line each."""
    return [
        f"{operation.name}: {row} gives {got:#x}, documented is {wanted:#x} ({operation.source})"
        for operation, words in zip(OPERATIONS, results, strict=True)
        for row, got, wanted in zip(operation.values, words, documented(operation), strict=True)
        if not same(got, wanted, operation.result)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documented", action="store_true")
    parser.add_argument("--device", choices=("gpu", "software"), default="gpu")
    options = parser.parse_args()
    if options.documented:
        TABLE.write_text(written([documented(operation) for operation in OPERATIONS], "NVIDIA's documents"))
        return
    device = open_device(Settings(kind=options.device))
    results = computed(device, compile_text(source(), "arithmetic.cu", device.info.timing_target).path)
    different = differences(results)
    print(
        "\n".join(
            [*different, f"{sum(map(len, results))} cases on {device.info.name}, {len(different)} not as documented"]
        )
    )
    if options.device == "gpu":
        TABLE.write_text(written(results, device.info.name))
    device.close()


if __name__ == "__main__":
    main()
