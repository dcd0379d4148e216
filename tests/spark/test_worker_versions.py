"""Workers without Tailrace, or with another version of it."""

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from uuid import uuid4

import pytest

import tailrace
from tailrace.testing.replica_set import ReplicaSet
from tests.spark.standalone_cluster import kill_driver, standalone_cluster, start_driver
from tests.support.object_store import ObjectStoreServer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]
PACKAGE = Path(tailrace.__file__).parent


@pytest.fixture
def hidden(java: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "hidden"
    folder.mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    return folder


@pytest.fixture
def bare_python(tmp_path: Path) -> str:
    """A Python that has all packages but Tailrace."""
    folder = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (site,) = (folder / "lib").glob("python*/site-packages")
    (site / "others.pth").write_text(sysconfig.get_paths()["purelib"])
    python = str(folder / "bin" / "python")
    assert subprocess.run([python, "-c", "import pyarrow, pymongo"], check=False).returncode == 0
    assert subprocess.run([python, "-c", "import tailrace"], check=False, capture_output=True).returncode
    return python


def test_workers_without_tailrace_are_reported_in_one_sentence(
    hidden: Path, bare_python: str, objects: ObjectStoreServer
) -> None:
    environment = {**objects.environment(), "PYSPARK_PYTHON": bare_python}
    with standalone_cluster(hidden, {"PYSPARK_PYTHON": bare_python}) as cluster, ReplicaSet() as rs:
        rs.client().shop.orders.insert_one({"_id": 1})
        driver = start_driver(cluster, rs.uri, objects.url(uuid4().hex), environment)
        output, _ = driver.communicate(timeout=300)
        kill_driver(driver)
        assert driver.returncode == 1
        assert "an executor has no Tailrace; install it on every worker" in output


def test_workers_of_another_version_are_refused_in_one_sentence(
    hidden: Path, objects: ObjectStoreServer, tmp_path: Path
) -> None:
    other = tmp_path / "other" / "tailrace"
    shutil.copytree(PACKAGE, other, ignore=shutil.ignore_patterns("__pycache__"))
    text = (other / "__init__.py").read_text()
    (other / "__init__.py").write_text(text.replace(f'"{tailrace.__version__}"', '"0.0.9"'))
    with standalone_cluster(hidden, {"PYTHONPATH": str(other.parent)}) as cluster, ReplicaSet() as rs:
        rs.client().shop.orders.insert_one({"_id": 1})
        driver = start_driver(cluster, rs.uri, objects.url(uuid4().hex), objects.environment())
        output, _ = driver.communicate(timeout=300)
        kill_driver(driver)
        assert driver.returncode == 1
        assert f"the driver runs Tailrace {tailrace.__version__}, and this executor 0.0.9" in output
