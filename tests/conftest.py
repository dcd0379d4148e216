"""Fixtures shared by all tests: the console script, and one Spark session per test process."""

import gc
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import hypothesis
import pytest

from tailrace.pipeline.java import missing_java
from tests.cli.console import Here
from tests.support.object_store import ObjectStoreServer, object_store_server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# On a busy machine any example may take long.
hypothesis.settings.register_profile("tailrace", deadline=None)
hypothesis.settings.load_profile("tailrace")

_LONG = (
    "tests/laws/test_spark_sharded.py",
    "tests/cli/test_pipeline_command.py",
    "tests/testing/test_demo.py",
    "tests/laws/test_spark_engine.py",
)
"""Tests that mostly wait. They start first, so that they wait while the other tests run."""
_STARTS_JAVA = ("spark", "java")
"""The fixtures of tests that start a JVM."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: not item.nodeid.startswith(_LONG))
    for item in items:
        if any(name in _STARTS_JAVA for name in getattr(item, "fixturenames", ())):
            item.add_marker("jvm")


def pytest_collection_finish() -> None:
    # No later collection looks at the modules and items of all tests again.
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    # Libraries that count their objects at the end would find the frozen ones.
    gc.unfreeze()


@pytest.fixture
def here(capsysbinary: pytest.CaptureFixture[bytes]) -> Here:
    return Here(capsysbinary)


@pytest.fixture(scope="session")
def objects() -> Iterator[ObjectStoreServer]:
    """An S3 on the loopback address, which processes find by their environment."""
    with object_store_server() as server, pytest.MonkeyPatch.context() as patch:
        for name, value in server.environment().items():
            patch.setenv(name, value)
        yield server


@pytest.fixture(scope="session")
def java() -> None:
    """Skip tests that need Java where there is none; `make test` installs one where it can."""
    sentence = missing_java()
    if sentence is not None:
        pytest.skip(sentence)


@pytest.fixture(scope="session")
def spark(java: None, tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":
    """Spark in this process with two cores; started by the first test that uses it."""
    from tailrace.spark.session import LIGHT_JAVA, build_session

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    folder = tmp_path_factory.mktemp("spark")
    session = build_session(
        "local[2]",
        "tailrace tests",
        {
            **LIGHT_JAVA,
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.local.dir": str(folder / "local"),
            # Starting a Python process can take long on a busy machine.
            "spark.python.authenticate.socketTimeout": "120s",
        },
    )
    yield session
    session.stop()
