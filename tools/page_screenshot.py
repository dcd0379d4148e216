"""``python -m tools.page_screenshot``: take the pictures of the page for the documentation.

It runs a shop on `tailrace serve` with its pipeline, opens the page in the Chromium of the system, waits until
there is something to see, and writes docs/images/page-light.png, page-dark.png, page-phone.png and
page-event.png. Takes about a minute.
"""

import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page
from pymongo import MongoClient
from pymongo.collection import Collection
from pymongo.database import Database

from tests.web.browser import chromium

IMAGES = Path(__file__).parents[1] / "docs" / "images"
SECONDS_OF_DATA = 45
ITEMS = ("lamp", "desk", "chair", "teapot", "rug")

Document = dict[str, Any]
Client = MongoClient[Document]


@contextmanager
def serving() -> Iterator[tuple[str, str]]:
    """The connection string of a server with a pipeline, and the URL of its page."""
    command = [sys.executable, "-m", "tailrace", "serve", "--port", "0", "--http", "127.0.0.1:0"]
    with subprocess.Popen(
        [*command, "--members", "3", "--log-level", "error"], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            ready, page = (process.stdout.readline().split()[1] for _ in range(2))
            yield ready, page
        finally:
            process.terminate()
            process.wait()


def sell(shop: Database[Document], ending: threading.Event) -> None:
    """Write orders, more and less of them."""
    chosen = random.Random(7)
    number = 0
    while not ending.wait(0.03 if number // 300 % 2 else 0.01):
        number += 1
        shop.orders.insert_one({"_id": number, "item": chosen.choice(ITEMS), "qty": chosen.randint(1, 9)})
        if number % 3 == 0:
            shop.orders.update_one({"_id": number}, {"$set": {"paid": True}})
        if number % 7 == 0:
            shop.orders.delete_one({"_id": number - 5})
        if number % 5 == 0:
            shop.stock.update_one({"_id": chosen.choice(ITEMS)}, {"$inc": {"left": -1}}, upsert=True)


def read(
    target: Client | Database[Document] | Collection[Document], pause: float, ending: threading.Event
) -> None:
    with target.watch() as stream:
        while not ending.is_set():
            stream.try_next()
            time.sleep(pause)


@contextmanager
def shop(uri: str) -> Iterator[None]:
    """A shop with customers and three consumers."""
    ending = threading.Event()
    clients: list[Client] = []

    def client(name: str) -> Client:
        clients.append(MongoClient(uri, appname=name))
        return clients[-1]

    works = [
        threading.Thread(target=sell, args=(client("shop").shop, ending)),
        threading.Thread(target=read, args=(client("search index").shop.orders, 0.001, ending)),
        threading.Thread(target=read, args=(client("audit"), 0.01, ending)),
        threading.Thread(target=read, args=(client("mailer").shop, 0.03, ending)),
    ]
    for work in works:
        work.start()
    try:
        yield
    finally:
        ending.set()
        for work in works:
            work.join()
        for each in clients:
            each.close()


def opened(browser: Browser, url: str, width: int, height: int, scheme: Any) -> Page:
    page = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme).new_page()
    page.goto(url)
    page.wait_for_selector("#tail li")
    page.wait_for_selector("#history-details li", timeout=120_000)
    return page


def main() -> int:
    with serving() as (uri, url), shop(uri), chromium() as browser:
        light = opened(browser, url, 1280, 1130, "light")
        time.sleep(SECONDS_OF_DATA)
        light.reload()
        light.wait_for_selector("#history-details li")
        light.wait_for_selector("#tail li:nth-child(20)")
        light.screenshot(path=IMAGES / "page-light.png")
        dark = opened(browser, url, 1280, 1130, "dark")
        dark.wait_for_selector("#tail li:nth-child(20)")
        dark.screenshot(path=IMAGES / "page-dark.png", full_page=True)
        dark.click("#tail-pause")
        dark.click("#tail li:nth-child(2) button")
        dark.wait_for_selector("#event-rows dt")
        dark.locator("#event").screenshot(path=IMAGES / "page-event.png")
        phone = opened(browser, url, 390, 844, "light")
        phone.wait_for_selector("#tail li:nth-child(20)")
        phone.screenshot(path=IMAGES / "page-phone.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
