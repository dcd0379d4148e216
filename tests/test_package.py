"""What is shipped: metadata, the files of the source distribution, the pages of the site."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from email import message_from_string
from importlib.util import find_spec
from pathlib import Path
from runpy import run_path
from typing import Any

import pytest
import yaml

import tailrace

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
LINK = re.compile(r"\]\(([^)\s]+)\)")
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def pages(entry: Any) -> list[str]:
    """The pages of a part of the site's navigation."""
    if isinstance(entry, str):
        return [entry]
    parts = entry.values() if isinstance(entry, dict) else entry
    return [page for part in parts for page in pages(part)]


def test_every_page_is_part_of_the_site_once() -> None:
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    assert sorted(pages(site["nav"])) == sorted(path.name for path in (ROOT / "docs").glob("*.md"))


def test_the_source_distribution_names_files_that_exist() -> None:
    lines = (ROOT / "MANIFEST.in").read_text().splitlines()
    named = [name for line in lines if line.startswith(("include", "graft")) for name in line.split()[1:]]
    assert {"docs", "CHANGELOG.md"} <= set(named)
    assert not [name for name in named if not (ROOT / name).exists()]


def test_the_version_is_that_of_the_package() -> None:
    assert PROJECT["version"] == tailrace.__version__


def test_the_version_has_a_dated_heading_in_the_changelog() -> None:
    headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == "Unreleased"
    assert re.fullmatch(rf"{re.escape(PROJECT['version'])} - \d{{4}}-\d\d-\d\d", headings[1])


def test_the_description_for_the_package_index_has_no_link_that_leads_nowhere() -> None:
    metadata = run_path(str(ROOT / "setup.py"))
    shown = metadata["description"](README, "", "1.2.3")
    assert not [target for target in LINK.findall(shown) if not target.startswith("https://")]
    assert metadata["project_urls"]("", "1.2.3") == {}
    # The pages are named as text.
    assert "docs/testing.md" in shown
    assert "](" not in shown.replace("](https://", "")


def test_one_setting_makes_all_links_absolute() -> None:
    metadata = run_path(str(ROOT / "setup.py"))
    address = "https://code.example/team/tailrace"
    shown = metadata["description"](README, address, "1.2.3")
    links = LINK.findall(shown)
    assert len(links) == len(LINK.findall(README))
    assert all(link.startswith("https://") for link in links)
    ours = [link for link in links if link.startswith(address)]
    files = [link.removeprefix(address).partition("/v1.2.3/")[2].partition("#")[0] for link in ours]
    assert not [name for name in files if not (ROOT / name).exists()]
    assert set(metadata["project_urls"](address, "1.2.3")) == {
        "Homepage",
        "Source",
        "Documentation",
        "Changelog",
        "Issues",
    }


@pytest.mark.parametrize("by_variable", [False, True])
def test_the_metadata_follows_the_address_of_the_project(tmp_path: Path, by_variable: bool) -> None:
    for name in ("LICENSE", "README.md", "setup.py"):
        shutil.copy(ROOT / name, tmp_path)
    settings = (ROOT / "pyproject.toml").read_text()
    address = "https://code.example/team/tailrace"
    written = "" if by_variable else address
    changed = re.sub(r'^address = ""', f'address = "{written}"', settings, flags=re.MULTILINE)
    (tmp_path / "pyproject.toml").write_text(changed)
    (tmp_path / "src" / "tailrace").mkdir(parents=True)
    (tmp_path / "metadata").mkdir()
    code = "from setuptools import build_meta; build_meta.prepare_metadata_for_build_wheel('metadata')"
    environment = os.environ | {"PACKAGE_ADDRESS": address if by_variable else ""}
    subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment,
        check=True,
        capture_output=True,
        timeout=60,
    )
    (file,) = (tmp_path / "metadata").glob("*.dist-info/METADATA")
    metadata = message_from_string(file.read_text())
    version = f"v{PROJECT['version']}"
    assert metadata.get_all("Project-URL") == [
        f"Homepage, {address}",
        f"Source, {address}",
        f"Documentation, {address}/blob/{version}/docs/index.md",
        f"Changelog, {address}/blob/{version}/CHANGELOG.md",
        f"Issues, {address}/issues",
    ]
    description = str(metadata.get_payload())
    assert f"]({address}/raw/{version}/docs/images/page-light.png)" in description
    assert all(link.startswith("https://") for link in LINK.findall(description))


def test_spark_finds_the_format_by_the_name_of_a_module() -> None:
    pytest.importorskip("pyspark")
    from pyspark.sql.datasource import DataSource

    from pyspark_tailrace import DefaultSource

    assert find_spec("pyspark_tailrace") is not None
    assert issubclass(DefaultSource, DataSource)
    assert DefaultSource.name() == "tailrace"
