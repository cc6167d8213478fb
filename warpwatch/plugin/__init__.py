"""The pytest plugin: options, fixtures, and the hooks of pytest and pytest-benchmark.

A repository that names its kernels (``warpwatch_kernels`` in its pytest settings) uses it; in others it does nothing.
"""

pytest_plugins = ("warpwatch.plugin.options",)
