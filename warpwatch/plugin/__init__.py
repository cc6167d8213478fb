"""The pytest plugin: options, fixtures, and the hooks of pytest and pytest-benchmark.

It works in a repository that names its kernels, by ``[tool.warpwatch]`` in its pyproject.toml or ``warpwatch_kernels``
in its pytest settings. In others it does nothing.
"""

pytest_plugins = ("warpwatch.plugin.options",)
