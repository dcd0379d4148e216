"""The Java that Spark needs, and the settings of a session."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pymongo.database import Database
from pyspark.sql import SparkSession

from tailrace.errors import UsageError
from tailrace.pipeline import java
from tailrace.spark import register

SCRIPT = """
from tailrace.spark.session import build_session
spark = build_session("local[1]", conf={"spark.sql.session.timeZone": "Europe/Berlin"})
conf = spark.conf
print(conf.get("spark.sql.session.timeZone"), conf.get("spark.hadoop.fs.file.impl"))
frame = spark.read.format("tailrace").option("oplog", "PATH").option("documentsAs", "json").load()
print(len(frame.limit(3).collect()), len(frame.take(2)))
oplog = spark.read.format("tailrace.oplog").load("PATH")
print(len(oplog.limit(3).collect()), oplog.count())
spark.stop()
"""


def fake_java(home: Path, version: str, *, has_modules: bool = True) -> Path:
    """Create a `java` that prints this version."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    reply = f"""echo 'openjdk version "{version}"' >&2""" if has_modules else "exit 1"
    program.write_text(f"#!/bin/sh\n{reply}\n")
    program.chmod(0o755)
    return home


def test_java_is_found_by_its_variable_on_the_path_or_where_packages_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = [tmp_path / "installed"]
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert java.find_java(installed) is None
    sentence = java.missing_java(installed)
    assert sentence is not None
    assert "Java 17 or newer" in sentence
    with pytest.raises(UsageError, match="apt-get install"):
        java.use_java(installed)

    own = fake_java(installed[0] / "jdk-21", "21.0.1")
    assert java.find_java(installed) == own
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", "11.0.2")))
    assert java.find_java(installed) == own
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "cut", "17.0.2", has_modules=False)))
    assert java.find_java(installed) == own
    new = fake_java(tmp_path / "new", "17.0.2")
    monkeypatch.setenv("JAVA_HOME", str(new))
    java.use_java(installed)
    assert os.environ["JAVA_HOME"] == str(new)
    assert java.missing_java(installed) is None


def test_java_is_installed_by_apt_get_where_that_is_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path / "installed"
    programs = tmp_path / "programs"
    programs.mkdir()
    package = fake_java(tmp_path / "package", "17.0.9")
    java_home = installed / "java-17"
    scripts = {
        # It can install only after an update; the package is a Java.
        "apt-get": f"""case "$1" in
            update) /bin/touch {tmp_path}/updated ;;
            install) [ -e {tmp_path}/updated ] && /bin/cp -r {package} {java_home} ;;
            esac""",
        "sudo": '[ "$1" = -n ] && shift && exec "$@"',
        "true": "exit 0",
    }
    for name, script in scripts.items():
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)
    installed.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert java.install_java([installed]) == java_home
    assert java.install_java([installed]) == java_home  # already installed


@pytest.mark.slow
@pytest.mark.usefixtures("java")
def test_a_session_has_the_measured_settings_and_a_quiet_log_even_with_a_limit(
    tmp_path: Path,
) -> None:
    from tests.support.bulk import generate_bulk
    from tests.support.history import dump

    path = tmp_path / "oplog.bson"
    path.write_bytes(dump(generate_bulk(1, 5000)))
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT.replace("PATH", str(path))], capture_output=True, text=True, check=False
    )
    shown = run.stdout.splitlines()
    assert shown == ["Europe/Berlin org.apache.hadoop.fs.RawLocalFileSystem", "3 2", "3 5000"], run.stderr
    # Spark closes the connections of workers that still write.
    assert not re.search(r"WARN |Traceback|BrokenPipeError", run.stderr), run.stderr


@pytest.mark.slow
def test_a_session_that_registered_nothing_finds_the_format(
    spark: SparkSession, tailrace_uri: str, tailrace_database: Database[dict[str, Any]]
) -> None:
    tailrace_database.orders.insert_many([{"_id": number} for number in range(3)])
    plain = spark.newSession()
    plain.conf.unset("spark.sql.python.filterPushdown.enabled")
    rows = (
        plain.read.format("tailrace").option("uri", tailrace_uri).option("database", tailrace_database.name)
    )
    found = rows.load().where("operationType = 'insert'").select("token").collect()
    assert len(found) == 3


def test_workers_import_the_installed_pyspark_and_not_its_source(spark: SparkSession) -> None:
    def paths(_: int) -> tuple[str, str]:
        return sys.executable, pyspark.__file__

    assert spark.sparkContext.parallelize([0], 1).map(paths).collect() == [(sys.executable, pyspark.__file__)]


def test_workers_without_tailrace_are_refused(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python3"
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(python))
    with pytest.raises(
        UsageError, match=f"workers run {python}, which has no Tailrace; set .* PYSPARK_PYTHON"
    ):
        register(spark)
