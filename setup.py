"""What of the package's metadata depends on where the project is published.

`tool.tailrace.address` in pyproject.toml is the only place for the address of its repository; the variable
PACKAGE_ADDRESS of a build replaces it. As long as both are empty, the package has no project URLs, and the
description for the package index has no links that would lead nowhere.
"""

import os
import re
import tomllib
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
_WHERE = "\nThe files that are named here, such as `docs/index.md`, are in the source distribution.\n"


def description(readme: str, address: str, version: str) -> str:
    """Return README.md for the package index: links to files are absolute; without an address only text."""

    def link(found: re.Match[str]) -> str:
        is_image, text, target = found[1] == "!", found[2], found[3]
        if target.startswith(("http://", "https://")):
            return found[0]
        if address:
            kind = "raw" if is_image else "blob"
            return f"{found[1]}[{text}]({address}/{kind}/v{version}/{target})"
        if is_image:
            return ""
        return text if target in text else f"{text} (`{target}`)"

    text = _LINK.sub(link, readme)
    return text if address else re.sub(r"\n{3,}", "\n\n", text) + _WHERE


def project_urls(address: str, version: str) -> dict[str, str]:
    """Return the links that the package index shows beside the description."""
    if not address:
        return {}
    return {
        "Homepage": address,
        "Source": address,
        "Documentation": f"{address}/blob/v{version}/docs/index.md",
        "Changelog": f"{address}/blob/v{version}/CHANGELOG.md",
        "Issues": f"{address}/issues",
    }


if __name__ == "__main__":
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    place = (os.environ.get("PACKAGE_ADDRESS") or settings["tool"]["tailrace"]["address"]).rstrip("/")
    number = settings["project"]["version"]
    setup(
        long_description=description((ROOT / "README.md").read_text(), place, number),
        long_description_content_type="text/markdown",
        project_urls=project_urls(place, number),
    )
