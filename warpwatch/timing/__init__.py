"""Takes times: CUDA events on a held stream, with L2 scrubbed; the parent's and the worker's half of a measurement."""
