"""What is in deploy/: images, services and manifests name files, options and ports that exist."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tailrace.cli.commands import COMMANDS, all_option_names, parser_of
from tailrace.web.http_thread import DEFAULT_PORT

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
RUN_PODS = ("StatefulSet", "Deployment")
manifests = pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)


def read(
    arguments: list[str], environment: dict[str, str], config: str | None, folder: Path
) -> dict[str, Any]:
    """The options of a command line, as the command reads them; a configuration is put in its place."""
    if config is not None:
        file = folder / "tailrace.toml"
        file.write_text(config)
        arguments = [str(file) if text.endswith("tailrace.toml") else text for text in arguments]
    return vars(parser_of(arguments[0]).read(arguments[1:], environment, COMMANDS, all_option_names))


def instructions() -> list[tuple[str, str]]:
    text = re.sub(r"^#.*\n", "", (DEPLOY / "Dockerfile").read_text(), flags=re.MULTILINE)
    return [tuple(line.split(" ", 1)) for line in text.replace("\\\n", " ").splitlines() if line]  # type: ignore[misc]


def test_the_image_has_two_stages_and_runs_as_a_user_without_rights() -> None:
    names = [name for name, _ in instructions()]
    last = instructions()[len(names) - 1 - names[::-1].index("FROM") :]
    by_name = dict(last)
    assert names.count("FROM") == 2
    assert not [text for name, text in instructions() if name == "FROM" and ":" not in text]
    assert by_name["USER"].strip() not in ("root", "0")
    assert "HEALTHCHECK" in by_name
    assert by_name["ENTRYPOINT"].endswith('"tailrace"]')


def test_the_image_copies_files_that_exist_and_sets_options_that_exist(tmp_path: Path) -> None:
    copied = [text for name, text in instructions() if name == "COPY"]
    assert copied
    for text in copied:
        assert all((ROOT / source).exists() for source in text.split()[:-1])
    (variables,) = [
        dict(re.findall(r"(TAILRACE_\w+)=(\S+)", text)) for name, text in instructions() if name == "ENV"
    ]
    found = read(["serve"], variables, None, tmp_path)
    assert (found["host"], found["log_format"]) == ("0.0.0.0", "json")
    assert str(found["data"]).startswith(dict(instructions())["VOLUME"])


def test_the_package_can_be_built_from_what_the_image_copies(tmp_path: Path) -> None:
    for name, text in instructions():
        *sources, _ = text.split() if name == "COPY" else [""]
        for source in sources:
            if (ROOT / source).is_dir():
                (tmp_path / source / "tailrace").mkdir(parents=True)
            else:
                shutil.copy(ROOT / source, tmp_path)
    (tmp_path / "metadata").mkdir()
    code = "from setuptools import build_meta; build_meta.prepare_metadata_for_build_wheel('metadata')"
    built = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
    )
    assert built.returncode == 0, built.stderr


def test_probes_ask_the_page_of_a_process() -> None:
    healthy = dict(instructions())["HEALTHCHECK"]
    assert f"http://127.0.0.1:{DEFAULT_PORT}/healthz" in healthy
    (pod,) = pods(DEPLOY / "kubernetes" / "serve.yaml")
    (container,) = pod["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports["http"] == DEFAULT_PORT
    asked = {probe: container[probe]["httpGet"] for probe in ("readinessProbe", "livenessProbe")}
    assert {probe: request["path"] for probe, request in asked.items()} == {
        "readinessProbe": "/readyz",
        "livenessProbe": "/healthz",
    }
    # The certificate of the server is that of its page, too.
    assert {(request["port"], request["scheme"]) for request in asked.values()} == {("http", "HTTPS")}


def test_the_services_of_the_compose_file_read_their_options(tmp_path: Path) -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    for service in compose["services"].values():
        variables = {name: str(value) for name, value in service["environment"].items()}
        (command,) = service["command"]
        found = read([command], variables, None, tmp_path)
        for variable in variables:
            assert found[variable.removeprefix("TAILRACE_").lower()]
        assert {volume.partition(":")[0] for volume in service["volumes"]} <= compose["volumes"].keys()
        assert set(service.get("secrets", ())) <= compose["secrets"].keys()
        if "healthcheck" in service:
            read(service["healthcheck"]["test"][2:], {}, None, tmp_path)
    build = compose["services"]["server"]["build"]
    assert (DEPLOY / build["context"] / build["dockerfile"]).resolve() == DEPLOY / "Dockerfile"
    assert all(port.startswith("127.0.0.1:") for port in compose["services"]["server"]["ports"])


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.stem)
def test_a_unit_is_sound(unit: Path, tmp_path: Path) -> None:
    text = unit.read_text()
    (line,) = re.findall(r"^ExecStart=(.*)$", text, re.MULTILINE)
    program, *arguments = shlex.split(line)
    read(arguments, {}, (DEPLOY / "tailrace.toml").read_text(), tmp_path)
    assert "DynamicUser=yes" in text
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    # Everything but the program, which is not installed there on this machine.
    copy = tmp_path / unit.name
    copy.write_text(text.replace(program, sys.executable))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(copy)], capture_output=True, text=True, check=False
    )
    ours = [line for line in (done.stdout + done.stderr).splitlines() if unit.name in line]
    assert not ours, ours


def objects(path: Path) -> list[dict[str, Any]]:
    return [found for found in yaml.safe_load_all(path.read_text()) if found]


def pods(path: Path) -> list[dict[str, Any]]:
    return [found["spec"]["template"] for found in objects(path) if found["kind"] in RUN_PODS]


def test_every_manifest_runs_something() -> None:
    assert [len(pods(path)) for path in MANIFESTS] == [1, 1]


@manifests
def test_objects_are_complete_and_find_each_other(path: Path) -> None:
    found = objects(path)
    names = {(item["kind"], item["metadata"]["name"]) for item in found}
    assert len(names) == len(found)
    assert all(item["apiVersion"] for item in found)
    (pod,) = pods(path)
    labels = pod["metadata"]["labels"]
    for item in found:
        if item["kind"] in RUN_PODS:
            assert item["spec"]["selector"]["matchLabels"] == labels
            assert item["spec"]["replicas"] == 1
        if item["kind"] == "Service":
            ports = {port["name"] for port in pod["spec"]["containers"][0]["ports"]}
            assert item["spec"]["selector"] == labels
            assert {port["targetPort"] for port in item["spec"]["ports"]} <= ports
        if item["kind"] == "RoleBinding":
            assert ("Role", item["roleRef"]["name"]) in names
            assert all((one["kind"], one["name"]) in names for one in item["subjects"])
    for volume in pod["spec"]["volumes"]:
        if "configMap" in volume:
            assert ("ConfigMap", volume["configMap"]["name"]) in names
    if "serviceAccountName" in pod["spec"]:
        assert ("ServiceAccount", pod["spec"]["serviceAccountName"]) in names


@manifests
def test_a_pod_has_no_rights_that_it_does_not_need(path: Path) -> None:
    (pod,) = pods(path)
    (container,) = pod["spec"]["containers"]
    claims = [
        claim["metadata"]["name"]
        for item in objects(path)
        for claim in item.get("spec", {}).get("volumeClaimTemplates", ())
    ]
    volumes = {volume["name"] for volume in pod["spec"]["volumes"]} | set(claims)
    assert {mount["name"] for mount in container["volumeMounts"]} == volumes
    assert pod["spec"]["securityContext"]["runAsNonRoot"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert not container["securityContext"]["allowPrivilegeEscalation"]
    assert container["readinessProbe"]
    assert container["resources"]["requests"]
    assert container["resources"]["limits"]


@manifests
def test_a_pod_reads_its_configuration(path: Path, tmp_path: Path) -> None:
    (pod,) = pods(path)
    (container,) = pod["spec"]["containers"]
    (config,) = [item["data"]["tailrace.toml"] for item in objects(path) if item["kind"] == "ConfigMap"]
    # What Kubernetes would set for a service of this name is an option; the pod does without.
    assert pod["spec"]["enableServiceLinks"] is False
    found = read(container["args"], {}, config, tmp_path)
    assert found["log_format"] == "json"
    mounted = tuple(mount["mountPath"] for mount in container["volumeMounts"])
    files = re.findall(r'"(/[^"]+)"', config)
    assert all(file.startswith(mounted) for file in files)
    for probe in ("readinessProbe", "livenessProbe"):
        command = container.get(probe, {}).get("exec", {}).get("command")
        if command is not None:
            read(command[1:], {}, None, tmp_path)


def test_the_example_configuration_is_one() -> None:
    assert set(tomllib.loads((DEPLOY / "tailrace.toml").read_text())) == {"serve", "pipeline"}
    assert os.access(DEPLOY / "tailrace.toml", os.R_OK)
