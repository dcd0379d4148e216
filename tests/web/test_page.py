"""The page in a real browser."""

import itertools
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.web.site import Site

WIDE = {"width": 1280, "height": 900}
PHONE = {"width": 390, "height": 844}


@contextmanager
def opened(
    browser: Browser, site: Site, scheme: str = "light", viewport: dict[str, int] = WIDE
) -> Iterator[Page]:
    """An open page; nothing may go wrong in it, and it may ask no other host."""
    faults: list[str] = []
    with browser.new_context(viewport=viewport, color_scheme=scheme) as context:  # type: ignore[arg-type]
        page = context.new_page()
        page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on(
            "request", lambda request: faults.append(request.url) if site.url not in request.url else None
        )
        page.goto(site.url)
        expect(page.locator("#tail-mode")).to_have_text("live")
        yield page
    assert not faults


@contextmanager
def writing(site: Site) -> Iterator[None]:
    """Insert and delete until the block ends."""
    ending = threading.Event()
    orders = site.client.written.orders

    def write() -> None:
        for number in itertools.count():
            if ending.wait(0.05):
                return
            orders.insert_one({"number": number})

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()


def test_live_events_appear_and_explain_their_tokens(site: Site, browser: Browser) -> None:
    orders = site.client.shop.orders
    with opened(browser, site) as page, orders.watch() as stream:
        orders.insert_one({"_id": "teapot", "qty": 3})
        event = next(stream)
        page.get_by_role("button", name=re.compile("insert.*shop.orders.*teapot")).click()
        expect(page.locator("#event-title")).to_have_text("insert shop.orders")
        expect(page.locator("#event-token")).to_have_text(event["_id"]["_data"])
        expect(page.locator("#event-rows")).to_contain_text('{"_id": "teapot"}')
        expect(page.locator("#event-document")).to_contain_text('"qty": 3')
        code = page.locator("#event-code")
        expect(code).to_contain_text(f'resume_after={{"_data": "{event["_id"]["_data"]}"}}')
        page.get_by_role("tab", name="Node.js").click()
        expect(code).to_contain_text("resumeAfter")
        page.keyboard.press("ArrowRight")
        expect(code).to_contain_text("getMongo()")
        page.select_option("#event-scope", "shop")
        expect(code).to_contain_text('getDB("shop").watch')
        page.keyboard.press("Escape")
        expect(page.locator("#event")).to_be_hidden()


def test_no_code_is_shown_for_a_token_that_cannot_be_explained(site: Site, browser: Browser) -> None:
    # A request that fails is an error on the console, which `opened` does not allow.
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(site.url)
        expect(page.locator("#tail-mode")).to_have_text("live")
        site.client.explained.orders.insert_many([{"_id": 1}, {"_id": 2}])
        page.get_by_role("button", name=re.compile('insert.*explained.orders.*"_id":1')).click()
        expect(page.locator("#event-code")).to_contain_text("resume_after")
        page.keyboard.press("Escape")
        page.route("**/api/token*", lambda route: route.abort("connectionrefused"))
        page.get_by_role("button", name=re.compile('insert.*explained.orders.*"_id":2')).click()
        expect(page.locator("#event-meaning")).to_have_text("The server does not answer.")
        expect(page.locator("#event-code")).to_be_hidden()
        page.unroute("**/api/token*")
        page.select_option("#event-scope", "explained")
        expect(page.locator("#event-code")).to_contain_text('client["explained"].watch')


def test_a_filter_and_a_pause(site: Site, browser: Browser) -> None:
    orders = site.client.filtered.orders
    with opened(browser, site) as page:
        page.fill("#tail-ns", "filtered.orders")
        page.fill("#tail-filter", '{"operationType": "delete"}')
        page.keyboard.press("Enter")
        expect(page.locator("#tail-mode")).to_have_text("live")
        orders.insert_many([{"_id": 1}, {"_id": 2}])
        orders.delete_one({"_id": 1})
        rows = page.locator("#tail li")
        expect(rows).to_have_count(1)
        page.click("#tail-pause")
        orders.delete_one({"_id": 2})
        expect(page.locator("#tail-pause")).to_have_text("Continue (1 new)")
        expect(rows).to_have_count(1)
        page.click("#tail-pause")
        expect(rows).to_have_count(2)


def test_the_time_line_draws_and_a_range_of_it_shows_its_events(site: Site, browser: Browser) -> None:
    with writing(site), opened(browser, site) as page:
        plot = page.locator("#plot")
        wait_for_two_points(page)
        plot.focus()
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("Shift+ArrowRight")
        expect(page.locator("#selection-text")).to_contain_text("events")
        page.keyboard.press("Escape")
        expect(page.locator("#selection")).to_be_hidden()
        box = plot.bounding_box()
        assert box is not None
        middle = box["y"] + box["height"] / 2
        page.mouse.move(box["x"] + 60, middle)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] - 10, middle)
        page.mouse.up()
        page.click("#selection-show")
        expect(page.locator("#tail-mode")).to_contain_text(" to ")
        page.wait_for_selector("#tail .badge-insert")


def wait_for_two_points(page: Page) -> None:
    """Two points of the time line make an area."""
    area = page.locator("#plot path.area-insert")
    expect(area).to_have_attribute("d", re.compile(r"M[\d.]+,[\d.]+L"), timeout=15_000)


def select_everything(page: Page, most: int) -> None:
    """Drag over the whole plot until it has at least ``most`` events."""
    box = page.locator("#plot").bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    events = 0
    while events < most:
        page.mouse.move(box["x"] + 1, middle)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] - 1, middle)
        page.mouse.up()
        found = re.search(r"about ([\d,]+) events", page.inner_text("#selection-text"))
        events = int(found[1].replace(",", "")) if found else 0


def test_a_range_shows_all_its_events_up_to_the_limit_that_it_names(site: Site, browser: Browser) -> None:
    ranged = site.client.ranged
    with opened(browser, site) as page:
        with writing(site):  # so that the time line begins before them
            wait_for_two_points(page)
            ranged.some.insert_many([{"_id": number} for number in range(400)])
            ranged.more.insert_many([{"_id": number} for number in range(600)])
            select_everything(page, 1000)
        page.fill("#tail-ns", "ranged.some")
        page.click("#selection-show")
        expect(page.locator("#tail-note")).to_contain_text("The range has 401 events.", timeout=15_000)
        assert page.locator("#tail li").count() == 401  # with the collection's create
        page.fill("#tail-ns", "ranged.more")
        page.click("#selection-show")
        expect(page.locator("#tail-note")).to_contain_text("These are the first 500 events of the range.")
        shown = page.locator("#tail li")
        assert shown.count() == 500
        assert "create" in shown.last.inner_text()


def test_panels_show_streams_deployment_and_history(site: Site, browser: Browser) -> None:
    with site.client.watched.orders.watch(), opened(browser, site, "dark") as page:
        expect(page.locator("#streams")).to_contain_text("watched.orders")
        expect(page.locator("#deployment")).to_contain_text("replica set rs0")
        expect(page.locator("#history")).to_contain_text("Events")
        expect(page.locator("#history-details")).to_contain_text("past.orders")
        page.get_by_role("row", name=re.compile("watched.orders")).get_by_role("button").click()
        expect(page.locator("#event-rows")).to_contain_text("high water mark")
        page.keyboard.press("Escape")
        dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
        page.click("#theme")
        light = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert dark != light


def test_a_phone_scrolls_in_one_direction(site: Site, browser: Browser) -> None:
    long_name = "watched." + "orders" * 12
    with site.client.watched["orders" * 12].watch(), opened(browser, site, viewport=PHONE) as page:
        expect(page.locator("#streams")).to_contain_text(long_name)
        assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
        # The name is wrapped, not cut off.
        cell = page.get_by_role("cell", name=long_name)
        assert cell.evaluate("cell => cell.scrollWidth <= cell.clientWidth")


@pytest.mark.parametrize("viewport", [WIDE, PHONE], ids=["wide", "phone"])
def test_a_long_figure_stays_in_its_tile(site: Site, browser: Browser, viewport: dict[str, int]) -> None:
    with opened(browser, site, viewport=viewport) as page:
        tiles = page.locator("#tiles .tile")
        expect(tiles.first).to_be_visible()
        # What a page shows after hours; the next figures replace it.
        for place in range(tiles.count()):
            tile = tiles.nth(place)
            tile.evaluate("tile => { tile.querySelector('dd').textContent = '23 h 59 min' }")
            assert tile.evaluate("tile => tile.scrollWidth <= tile.clientWidth")
        assert page.evaluate("document.documentElement.scrollWidth") == viewport["width"]


# The contrast of a text with what it is drawn on, by the formula of the Web Content Accessibility Guidelines.
CONTRAST = """node => {
    const light = text => {
        const linear = value => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
        const [r, g, b] = text.match(/[\\d.]+/g).slice(0, 3).map(value => linear(value / 255));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const style = getComputedStyle(node);
    const [low, high] = [light(style.color), light(style.backgroundColor)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_kinds_of_events_can_be_read(site: Site, browser: Browser, scheme: str) -> None:
    kinds = site.client.kinds.orders
    with opened(browser, site, scheme) as page:
        kinds.insert_one({"_id": 1})
        kinds.update_one({"_id": 1}, {"$set": {"paid": True}})
        kinds.delete_one({"_id": 1})
        kinds.drop()
        for kind in ("insert", "update", "delete", "drop"):
            badge = page.locator(f"#tail .badge-{kind}").first
            expect(badge).to_be_visible()
            assert badge.evaluate(CONTRAST) >= 4.5, kind


def test_everything_can_be_reached_by_keys(site: Site, browser: Browser) -> None:
    with opened(browser, site) as page:
        site.client.keys.orders.insert_one({"_id": 1})
        page.wait_for_selector("#tail li")
        wanted = {"theme", "plot", "tail-ns", "tail-filter", "tail-pause", "tail-clear"}
        reached = set()
        for _ in range(40):
            page.keyboard.press("Tab")
            reached.add(page.evaluate("document.activeElement.id"))
        assert wanted <= reached
