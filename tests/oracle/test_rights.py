"""The rights that docs/rights.md grants, on a real server with access control: enough, and each is needed."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import pytest
from bson import Timestamp, encode
from pymongo import MongoClient
from pymongo.errors import OperationFailure
from pyspark.sql import SparkSession

from tailrace import mirror
from tailrace.errors import UsageError
from tailrace.lake.mirror.mirror_table import MirrorTable
from tailrace.pipeline.history.settings import PipelineSettings
from tailrace.sources.deployments.deployment import DeploymentSource
from tailrace.spark.dataframes import change_stream
from tailrace.spark.history_job import HistoryJob
from tests.cli.console import Here
from tests.oracle.real_server import RealReplicaSet, missing_mongod
from tests.spark.pipeline_runs import RunningJob, build_all, holds, newest_time, wait_until
from tests.support.fronted import Fronted

Document = dict[str, Any]
PAGE = Path(__file__).parents[2] / "docs" / "rights.md"
GUIDE = PAGE.with_name("cdc-to-delta.md")
SECONDS = 240


def commands_of(page: Path) -> list[Document]:
    shown = re.findall(r"```javascript\n *db\.adminCommand\((.*?)\)\n *```", page.read_text(), re.DOTALL)
    return [json.loads(text) for text in shown]


class Guarded:
    """A real replica set with access control, its administrator, and the users of docs/rights.md."""

    def __init__(self, replica_set: RealReplicaSet, root: MongoClient[Document]) -> None:
        self._set = replica_set
        self.root = root
        commands = commands_of(PAGE)
        self._roles = {
            found["createRole"]: found["privileges"] for found in commands if "createRole" in found
        }
        self._passwords = {found["createUser"]: found["pwd"] for found in commands if "createUser" in found}
        for command in commands:
            if "grantPrivilegesToRole" not in command:  # for clusters
                root.admin.command(command)
        # The guide gives another user of the same name the built-in roles.
        (command,) = commands_of(GUIDE)
        self._passwords["guide"] = command["pwd"]
        root.admin.command({**command, "createUser": "guide"})

    def uri(self, user: str, password: str | None = None) -> str:
        secret = quote_plus(self._passwords[user] if password is None else password)
        return self._set.uri.replace("://", f"://{user}:{secret}@")

    def password(self, user: str) -> str:
        return str(self._passwords[user])

    def source_file(self, folder: Path, user: str, password: str | None = None) -> tuple[str, Path]:
        """The options of a command that connects as a user."""
        path = folder / f"{user}.uri"
        path.write_text(self.uri(user, password))
        return "--source-file", path

    @property
    def uri_without_user(self) -> str:
        return self._set.uri

    def narrowed(self, role: str, database: str) -> list[Document]:
        """The privileges of a role with a database in the place of all of them."""
        everything = {"db": "", "collection": ""}
        return [
            {**found, "resource": {"db": database, "collection": ""}}
            if found["resource"] == everything
            else found
            for found in self._roles[role]
        ]

    def remove(self, role: str, action: str, place: str, database: str = "") -> None:
        """Take one action away from a role, on the resource whose description contains ``place``.

        With a ``database``, the role is for its collections instead of those of all databases.
        """
        privileges = []
        for privilege in self.narrowed(role, database):
            is_meant = place in json.dumps(privilege["resource"])
            actions = [name for name in privilege["actions"] if not is_meant or name != action]
            if actions:
                privileges.append({**privilege, "actions": actions})
        assert privileges != self.narrowed(role, database)
        self.root.admin.command("updateRole", role, privileges=privileges)

    def restore(self) -> None:
        for role, privileges in self._roles.items():
            self.root.admin.command("updateRole", role, privileges=privileges)


@pytest.fixture(scope="module")
def real_guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    reason = missing_mongod()
    if reason is not None:
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("guarded")
    key = folder / "key"
    key.write_text("shared by the members\n")
    key.chmod(0o400)
    replica_set = RealReplicaSet(folder, "--auth", "--keyFile", str(key))
    try:
        replica_set.start()
        with replica_set.client() as client:
            client.admin.command("createUser", "root", pwd="root", roles=["root"])
        with replica_set.client(username="root", password="root") as root:
            root.shop.create_collection("orders", changeStreamPreAndPostImages={"enabled": True})
            root.shop.orders.insert_one({"_id": 1, "qty": 1})
            root.shop.orders.update_one({"_id": 1}, {"$set": {"qty": 2}})
            with root.start_session() as session, session.start_transaction():
                root.shop.orders.update_one({"_id": 1}, {"$set": {"qty": 3}}, session=session)
            yield Guarded(replica_set, root)
    finally:
        replica_set.stop()


@pytest.fixture
def guarded(real_guarded: Guarded) -> Iterator[Guarded]:
    yield real_guarded
    real_guarded.restore()


def quantities(spark: SparkSession, source: str) -> list[tuple[int, ...]]:
    options = {"fullDocument": "updateLookup", "fullDocumentBeforeChange": "required"}
    stages = [{"$match": {"operationType": "update"}}]
    rows = change_stream(spark, source, "shop.orders", options, stages, documentsAs="json").collect()
    return [
        tuple(int(json.loads(document)["qty"]["$numberInt"]) for document in found)
        for found in ((row.fullDocumentBeforeChange, row.fullDocument) for row in rows)
    ]


def test_the_documented_rights_are_enough(
    guarded: Guarded, spark: SparkSession, here: Here, tmp_path: Path
) -> None:
    uri, history = guarded.uri("pipeline"), tmp_path / "history"
    with DeploymentSource(uri) as source:
        table = build_all(spark, source, history)
    images = [image for batch in table.read(0) for image in batch.column("pre_image").to_pylist() if image]
    assert len(images) == 2
    # The current document is the same for both updates.
    assert quantities(spark, uri) == [(1, 3), (2, 3)]
    entries = spark.read.format("tailrace.oplog").option("uri", uri).load()
    assert entries.where("op = 'u' and ns = 'shop.orders'").count() == 1
    first = guarded.root.local["oplog.rs"].find_one({"ns": "shop.orders"})
    assert first is not None
    start = json.dumps({"$timestamp": {"t": first["ts"].time, "i": first["ts"].inc}})
    watched = ("--max", "1", "--start-at-operation-time", start)
    watcher = guarded.source_file(tmp_path, "watcher")
    outcome = here("watch", *watcher, *watched, "--full-document-before-change", "required")
    assert outcome.code == 0
    assert json.loads(outcome.output)["operationType"] == "insert"


@pytest.mark.parametrize(
    ("action", "place", "where"),
    [("find", "oplog.rs", r"local\.oplog\.rs"), ("replSetGetConfig", "cluster", "the cluster")],
    ids=["oplog", "config"],
)
def test_a_pipeline_without_a_right_is_refused_before_spark_starts(
    guarded: Guarded, here: Here, tmp_path: Path, action: str, place: str, where: str
) -> None:
    guarded.remove("tailracePipeline", action, place)
    source = guarded.source_file(tmp_path, "pipeline")
    outcome = here("pipeline", *source, "--history", tmp_path / "h")
    assert outcome.code == 2
    assert re.fullmatch(
        rf"the user pipeline lacks a right at 127\.0\.0\.1:\d+: {action} on {where}; docs/rights\.md has the "
        r"commands that grant it \(13 Unauthorized\)",
        outcome.sentence,
    )
    assert not (tmp_path / "h").exists()


@pytest.mark.parametrize("action", ["changeStream", "find"])
@pytest.mark.parametrize("namespace", [[], ["shop"], ["shop.orders"]])
def test_watch_without_a_right(
    guarded: Guarded, here: Here, tmp_path: Path, action: str, namespace: list[str]
) -> None:
    guarded.remove("tailraceWatch", action, "collection")
    outcome = here("watch", *namespace, *guarded.source_file(tmp_path, "watcher"))
    assert outcome.code == 2
    place = namespace[0] if namespace else "all databases"
    assert f": changeStream and find on {place}; docs/rights.md" in outcome.sentence
    assert "signature" not in outcome.sentence


def test_a_wrong_password_and_no_user(guarded: Guarded, here: Here, tmp_path: Path) -> None:
    pipeline = ["pipeline", "--history", str(tmp_path / "h")]
    for command, address in ((pipeline, ["--source"]), (["watch"], [])):
        wrong = here(*command, *guarded.source_file(tmp_path, "pipeline", "wrong"))
        assert wrong.code == 2
        assert wrong.sentence.endswith("name or the password of the user pipeline (18 AuthenticationFailed)")
        nobody = here(*command, *address, guarded.uri_without_user)
        assert nobody.code == 2
        assert "requires a user; name one in the URI, as mongodb://NAME@HOST/" in nobody.sentence


def test_a_right_that_a_task_misses_ends_the_pipeline_at_once(
    guarded: Guarded, spark: SparkSession, tmp_path: Path
) -> None:
    history = tmp_path / "history"
    with DeploymentSource(guarded.uri("pipeline")) as source:
        guarded.remove("tailracePipeline", "find", "system.preimages")
        with pytest.raises(UsageError, match=r": find on config\.system\.preimages; docs/rights\.md"):
            HistoryJob(source, PipelineSettings(history, interval=None)).run(spark)
        guarded.restore()
        assert build_all(spark, source, history).rows > 0


def test_a_right_that_is_taken_away_ends_a_running_pipeline(
    guarded: Guarded, spark: SparkSession, tmp_path: Path
) -> None:
    history = tmp_path / "history"
    with DeploymentSource(guarded.uri("pipeline")) as source:
        job = RunningJob(spark, HistoryJob(source, PipelineSettings(history)))
        job.start()
        try:
            assert holds(history, newest_time(guarded.root))
            guarded.remove("tailracePipeline", "find", "oplog.rs")
            guarded.root.shop.others.insert_one({})  # other tests read what is in `orders`
            wait_until(lambda: not job.is_alive())
        finally:
            job.end()
    assert isinstance(job.error, UsageError)
    assert ": find on local.oplog.rs; docs/rights.md" in str(job.error)


def test_a_look_up_without_a_right_is_an_error_of_the_query(guarded: Guarded, spark: SparkSession) -> None:
    guarded.remove("tailraceLookups", "find", "collection")
    with pytest.raises(Exception, match=r"find and listCollections on shop\.orders; docs/rights\.md"):
        quantities(spark, guarded.uri("pipeline"))


# -- a mirror -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("user", ["mirror", "guide"])
@pytest.mark.parametrize("namespaces", [[], ["shop.orders"]], ids=["everything", "a collection"])
def test_the_documented_rights_are_enough_for_a_mirror(
    guarded: Guarded, spark: SparkSession, tmp_path: Path, user: str, namespaces: list[str]
) -> None:
    for quantity in (5, 6):  # a copy, and the changes after it
        guarded.root.shop.stock.update_one({"_id": 1}, {"$set": {"qty": quantity}}, upsert=True)
        done = mirror(spark, guarded.uri(user), tmp_path / "lake", namespaces=namespaces)
    listed = {f"shop.{name}" for name in guarded.root.shop.list_collection_names()}
    assert set(done.tables) == (set(namespaces) or listed)
    for namespace, place in done.tables.items():
        collection = guarded.root.shop[namespace.partition(".")[2]]
        expected = [encode(document) for document in collection.find().sort("_id")]
        assert MirrorTable.open(place).documents() == expected


@pytest.mark.parametrize(
    ("action", "place", "missing"),
    [
        ("find", "oplog.rs", "find on local.oplog.rs"),
        ("replSetGetConfig", "cluster", "replSetGetConfig on the cluster"),
        ("find", '"db": "shop"', "find and listCollections on shop.orders"),
        ("listCollections", '"db": "shop"', "find and listCollections on shop"),
    ],
)
def test_a_mirror_without_a_right_ends_at_once(
    guarded: Guarded,
    spark: SparkSession,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    action: str,
    place: str,
    missing: str,
) -> None:
    # A right on all databases includes the oplog.
    guarded.remove("tailraceMirror", action, place, database="shop")
    with pytest.raises(UsageError) as caught:
        mirror(spark, guarded.uri("mirror"), tmp_path / "lake", namespaces=["shop.orders"])
    assert re.fullmatch(
        rf"the user mirror lacks a right at 127\.0\.0\.1:\d+: {re.escape(missing)}; docs/rights\.md has the "
        r"commands that grant it \(13 Unauthorized\)",
        str(caught.value),
    )
    assert "Trying again" not in caplog.text
    guarded.restore()
    done = mirror(spark, guarded.uri("mirror"), tmp_path / "lake", namespaces=["shop.orders"])
    assert done.rows == guarded.root.shop.orders.count_documents({})


# -- in front of the deployment -----------------------------------------------------------------------------


def orders_of(client: MongoClient[Document], start: Timestamp, **options: Any) -> list[Document]:
    """What a stream on the orders shows: an insert and two updates."""
    with client.shop.orders.watch(start_at_operation_time=start, **options) as stream:
        return [next(stream) for _ in range(3)]


def test_the_same_rights_serve_the_streams_of_the_deployment(
    guarded: Guarded, here: Here, tmp_path: Path
) -> None:
    first = guarded.root.local["oplog.rs"].find_one({"ns": "shop.orders"})
    assert first is not None
    images: Document = {"full_document": "updateLookup", "full_document_before_change": "whenAvailable"}
    with Fronted(guarded.uri("pipeline")) as front:
        client = front.client()
        assert orders_of(client, first["ts"], **images) == orders_of(guarded.root, first["ts"], **images)
        guarded.remove("tailraceLookups", "listCollections", "collection")
        assert orders_of(client, first["ts"]) == orders_of(guarded.root, first["ts"])
        guarded.remove("tailraceLookups", "find", "collection")
        with pytest.raises(
            OperationFailure, match=r": find and listCollections on shop\.orders; docs/rights"
        ):
            orders_of(client, first["ts"], full_document="updateLookup")
    guarded.remove("tailracePipeline", "find", "oplog.rs")
    outcome = here("serve", "--port", "0", *guarded.source_file(tmp_path, "pipeline"))
    assert outcome.code == 2
    assert ": find on local.oplog.rs; docs/rights.md" in outcome.sentence


def test_users_of_the_source_log_in_with_the_documented_rights(guarded: Guarded) -> None:
    watcher = {"username": "watcher", "password": guarded.password("watcher")}
    with Fronted(guarded.uri("pipeline"), auth=True) as front:
        with front.client(**watcher) as client:
            client.shop.orders.watch().close()
        guarded.remove("tailraceUsers", "viewUser", "collection")
        with front.client(**watcher) as client, pytest.raises(OperationFailure, match="viewUser on the"):
            client.shop.orders.watch()


@pytest.mark.slow
@pytest.mark.usefixtures("java")
def test_the_command_prints_one_sentence_and_no_stack_trace(guarded: Guarded, tmp_path: Path) -> None:
    guarded.remove("tailracePipeline", "find", "system.preimages")
    command = [sys.executable, "-m", "tailrace", "pipeline", "--master", "local[2,4]"]
    source = map(str, guarded.source_file(tmp_path, "pipeline"))
    command += [*source, "--history", str(tmp_path / "history")]
    done = subprocess.run(command, capture_output=True, timeout=SECONDS, check=False)
    assert done.returncode == 2
    *log, sentence = done.stderr.decode().splitlines()
    assert sentence.startswith("tailrace: the user pipeline lacks a right at ")
    messages = [json.loads(line)["msg"] for line in log if line.startswith("{")]
    assert messages == ["Serving the page", "Starting Spark"]
    for words in ("Traceback", "Exception", "RawBSONDocument", "signature", "\tat "):
        assert words not in done.stderr.decode()
