"""Gives the distribution README as its description, with links to the repository; pyproject.toml has the rest."""

import re
from pathlib import Path

from setuptools import setup

PAGES = "https://github.com/warpwatch/warpwatch/blob/main/"
text = Path(__file__).with_name("README.md").read_text(encoding="utf-8")
text = re.sub(r"(!\[[^\]]*\]\()(?!https?:)([^)]*)", rf"\1{PAGES}\2?raw=true", text)
text = re.sub(r"(\]\()(?!https?:|#)", rf"\1{PAGES}", text)
setup(long_description=text, long_description_content_type="text/markdown")
