"""The fixtures in another project: pytest in a child process finds the plugin."""

import re
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

pytest_plugins = "pytester"

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
HEAVY = ("pymongo", "bson", "lmdb", "tailrace.mongod.server", "tailrace.mongod.store")


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    # The plugin must not cause warnings in another project.
    return pytester.runpytest_subprocess("-p", "no:cacheprovider", "-W", "error", *arguments)


def test_the_examples_of_the_page_pass(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(**{f"test_example_{number}": code for number, code in enumerate(EXAMPLES)})
    tests = sum(code.count("\ndef test_") + code.startswith("def test_") for code in EXAMPLES)
    assert tests >= len(EXAMPLES)
    run(pytester).assert_outcomes(passed=tests)


def test_the_app_of_the_page_on_fastapi_passes_its_tests(pytester: pytest.Pytester) -> None:
    page = (PAGE.parent / "fastapi.md").read_text()
    files = re.findall(r"^```python\n# (\w+)\.py\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert [name for name, _ in files] == ["app", "test_app", "test_lost"]
    pytester.makepyfile(**dict(files))
    # The page shows code, not warnings of FastAPI's own dependencies.
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=3)


def test_the_page_names_every_fixture(pytester: pytest.Pytester) -> None:
    result = run(pytester, "--fixtures", "-q")
    found = set(re.findall(r"^(tailrace_\w+)", result.stdout.str(), re.MULTILINE))
    assert found == set(re.findall(r"^\| `(tailrace_\w+)` \|", PAGE.read_text(), re.MULTILINE))
    assert found


def test_a_project_that_uses_no_fixture_imports_nothing_heavy(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        f"""
        import sys

        def test_nothing_heavy_was_imported():
            assert "tailrace.testing.plugin" in sys.modules
            heavy = {HEAVY!r}
            assert not [name for name in sys.modules if name in heavy]
        """
    )
    run(pytester, "-p", "no:xdist", "-p", "no:hypothesispytest").assert_outcomes(passed=1)


def test_tests_do_not_affect_each_other(pytester: pytest.Pytester) -> None:
    """Databases are new and dropped; everything else that a test leaves on the shared set is undone."""
    pytester.makepyfile(
        """
        import time

        import pytest

        FAILURE = {"failCommands": ["insert", "dropDatabase"], "errorCode": 5}
        names = []

        @pytest.mark.parametrize("number", range(3))
        def test_fresh(tailrace_database, tailrace_client, number):
            assert tailrace_database.list_collection_names() == []
            tailrace_database.things.insert_one({"_id": 1})
            assert names.count(tailrace_database.name) == 0
            names.append(tailrace_database.name)

        def test_leaves_everything(tailrace_fail_point, tailrace_database, tailrace_clock, tailrace_client):
            tailrace_database.things.insert_one({"_id": 1})
            session = tailrace_client.start_session()
            session.start_transaction()
            tailrace_database.things.update_one({"_id": 1}, {"$set": {"a": 1}}, session=session)
            tailrace_fail_point("failCommand", "alwaysOn", FAILURE)
            tailrace_clock.advance(86400)
            assert tailrace_clock.now() > time.time() + 80000
            names.append(tailrace_database.name)

        def test_finds_nothing(tailrace_database, tailrace_clock, tailrace_client):
            assert not set(names) & set(tailrace_client.list_database_names())
            tailrace_database.things.insert_one({})
            assert abs(tailrace_clock.now() - time.time()) < 60
        """
    )
    run(pytester).assert_outcomes(passed=5)


def test_the_ini_file_has_options_of_all_servers(pytester: pytest.Pytester) -> None:
    pytester.makeini(
        """
        [pytest]
        tailrace_members = 2
        tailrace_server_version = 7.0.1
        tailrace_parameters =
            cursorTimeoutMillis = 1234
        """
    )
    pytester.makepyfile(
        """
        import pytest

        def test_shared(tailrace_server, tailrace_client):
            assert len(tailrace_server.members) == 2
            assert tailrace_client.server_info()["version"] == "7.0.1"
            shown = tailrace_client.admin.command("getParameter", cursorTimeoutMillis=1)
            assert shown["cursorTimeoutMillis"] == 1234

        @pytest.mark.tailrace(server_version="6.0.27")
        def test_own(tailrace_own_server):
            client = tailrace_own_server.client()
            assert client.server_info()["version"] == "6.0.27"
            assert client.admin.command("getParameter", cursorTimeoutMillis=1)["cursorTimeoutMillis"] == 1234
        """
    )
    run(pytester, "--strict-markers").assert_outcomes(passed=2)


def test_wrong_options_are_one_sentence(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.tailrace(membres=3)
        def test_spelling(tailrace_own_server):
            pass

        @pytest.mark.tailrace(members=0)
        def test_value(tailrace_own_server):
            pass

        @pytest.mark.tailrace(shards=2)
        def test_of_the_other(tailrace_own_server):
            pass

        @pytest.mark.tailrace(3)
        def test_without_a_name(tailrace_own_server):
            pass
        """
    )
    result = run(pytester)
    result.assert_outcomes(errors=4)
    result.stdout.fnmatch_lines(
        [
            "tailrace_own_server has no option membres; did you mean members?",
            "a set has 1 to 50 members, not 0",
            "tailrace_own_server has no option shards: it is for another kind of server, *",
            "pytest.mark.tailrace takes options with their names, such as members=3",
        ]
    )
    assert "Traceback" not in result.stdout.str()


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("tailrace_members = many", "tailrace_members is a whole number, not many"),
        ("tailrace_parameters = speed=11", "there is no server parameter speed (72 InvalidOptions)"),
    ],
)
def test_a_wrong_line_of_the_ini_file_is_one_sentence(
    pytester: pytest.Pytester, line: str, sentence: str
) -> None:
    pytester.makeini(f"[pytest]\n{line}\n")
    pytester.makepyfile("def test_shared(tailrace_server): pass")
    result = run(pytester)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([sentence])


def test_the_plugin_is_found_by_its_entry_point() -> None:
    (entry,) = entry_points(group="pytest11", name="tailrace")
    assert entry.load() is sys.modules["tailrace.testing.plugin"]
