"""The Chromium of the system, driven by Playwright, which downloads nothing."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, Error, sync_playwright

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def missing_browser() -> str | None:
    """Why there is no browser; None if there is one."""
    if shutil.which("chromium") is None:
        return "Chromium is not installed; `make browser` installs it where apt-get can"
    return None


@contextmanager
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=list(FLAGS))
        except Error as error:
            raise RuntimeError(f"Chromium does not start: {error}") from None
        with browser:
            yield browser
