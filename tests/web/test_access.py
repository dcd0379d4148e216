"""The page of a deployment that controls access, for others: HTTPS, and users with their rights."""

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.cli.console import Here
from tests.support.certificates import Authority
from tests.web.site import Site, serving_page


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("access")
    password = folder / "password"
    password.write_text("secret")
    authority = Authority(folder)
    options: list[str | Path] = ["--auth", "--auth-user", "root", "--auth-password-file", password]
    options += ["--tls-mode", "requireTLS", "--tls-certificate-key-file", authority.sign("server")]
    options += ["--http", "0.0.0.0:0"]
    with serving_page(*options, user=("root", "secret"), trusted=authority.path) as site:
        admin = site.client.admin
        admin.command("createUser", "operator", pwd="o", roles=["clusterMonitor"])
        admin.command(
            "createUser", "analyst", pwd="a", roles=["clusterMonitor", {"role": "read", "db": "shop"}]
        )
        admin.command("createUser", "clerk", pwd="c", roles=[{"role": "read", "db": "shop"}])
        yield site


def basic(user: str, password: str) -> dict[str, str]:
    return {"Authorization": f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"}


def test_only_probes_answer_without_a_user(guarded: Site) -> None:
    assert guarded.url.startswith("https://")
    assert guarded.get("/healthz").status == guarded.get("/readyz").status == 200
    for path in ("/api/state", "/api/live", "/api/timeline", "/api/history", "/api/tail", "/api/events"):
        assert guarded.get(path).status == 401
    refused = guarded.get("/metrics")
    assert refused.status == 401
    assert refused.headers["WWW-Authenticate"].startswith("Basic")


def test_the_deployment_decides_about_the_password(guarded: Site) -> None:
    wrong = guarded.get("/metrics", basic("operator", "wrong"))
    assert (wrong.status, wrong.json) == (401, {"error": "Authentication failed."})
    assert guarded.get("/metrics", basic("operator", "o")).status == 200
    state = guarded.get("/api/state", basic("operator", "o")).json
    assert [node["error"] for node in state["deployment"]["nodes"]] == [""]


def test_status_logs_in(here: Here, guarded: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(guarded.trusted))
    assert "asks for a user with the role clusterMonitor" in here("status", guarded.url).sentence
    password = tmp_path / "password"
    password.write_text("o\n")
    named = guarded.url.replace("https://", "https://operator@")
    outcome = here("status", named, "--password-file", password)
    assert (outcome.code, outcome.lines[-1]) == (0, "healthy"), outcome
    password.write_text("wrong\n")
    refused = here("status", named, "--password-file", password)
    assert (refused.code, "refuses the user operator; see whether its password" in refused.sentence) == (
        2,
        True,
    )
    password.write_text("c\n")
    clerk = guarded.url.replace("https://", "https://clerk@")
    sentence = here("status", clerk, "--password-file", password).sentence
    assert sentence.endswith("refuses the user clerk; see whether it has the role clusterMonitor")
    with_password = guarded.url.replace("https://", "https://operator:o@")
    assert "leave the password out" in here("status", with_password).sentence


def test_a_user_needs_the_right_to_monitor(guarded: Site) -> None:
    refused = guarded.get("/api/state", basic("clerk", "c"))
    assert refused.status == 403
    assert refused.json["error"].endswith("grant the role clusterMonitor")


def test_a_tail_shows_what_its_user_may_read(guarded: Site) -> None:
    refused = guarded.follow("/api/tail", basic("operator", "o"), ns="shop.orders")
    kind, message = next(refused)
    assert kind == "fault"
    assert "not authorized on shop" in message["error"]
    allowed = guarded.follow("/api/tail", basic("analyst", "a"), ns="shop.orders")
    assert next(allowed)[0] == "begin"
    allowed.close()


def test_the_form_logs_in_and_out(guarded: Site, browser: Browser) -> None:
    page = browser.new_page(ignore_https_errors=True)
    page.goto(guarded.url)
    page.fill("[name=user]", "operator")
    page.fill("[name=password]", "wrong")
    page.click("#login button")
    expect(page.locator("#login-fault")).to_have_text("Authentication failed.")
    page.fill("[name=password]", "o")
    page.click("#login button")
    expect(page.locator("#tiles")).to_contain_text("Open streams")
    page.click("#logout")
    expect(page.locator("#login")).to_be_visible()
    page.close()
