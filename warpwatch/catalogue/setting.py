"""Names the setting by which a repository says where its kernels are declared; costs next to nothing to import."""

SETTING = "warpwatch_kernels"  # in [tool.pytest.ini_options] of pyproject.toml
