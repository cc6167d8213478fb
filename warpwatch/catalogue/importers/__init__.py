"""Read kernels from the files of other tools."""
