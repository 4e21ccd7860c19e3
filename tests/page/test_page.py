"""The report's page in headless Chromium: what it shows, how it is used, how quick it is, that it asks no network.

PAGE_SMALL and PAGE_BIG name pages made by `concord report --html` (the reference campaign) and by bench_report (50,000
cases). PAGE_PICTURES names a folder for pictures to look at. Times are printed; they are never asserted.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

SMALL, BIG = (Path(os.environ.get(name, "/nowhere")) for name in ("PAGE_SMALL", "PAGE_BIG"))
PICTURES = os.environ.get("PAGE_PICTURES", "")
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as p:
        b = p.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield b
        b.close()


@pytest.fixture
def show(browser: Browser) -> Iterator[Callable[..., Page]]:
    contexts, faults = [], []

    def open_page(
        path: Path, fragment: str = "lang=en", width: int = 1360, height: int = 860, scheme: str = "light"
    ) -> Page:
        if not path.exists():
            pytest.skip(f"no page at {path}")
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda e: faults.append(str(e)))
        page.on("console", lambda m: faults.append(m.text) if m.type == "error" else None)
        page.on("request", lambda r: faults.append(r.url) if not r.url.startswith("file:") else None)
        page.goto(f"file://{path}#{fragment}")
        page.wait_for_selector("html[data-ready]")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not faults, faults  # errors of scripts, and every request that is not the file itself


def picture(page: Page, name: str) -> None:
    if PICTURES:
        page.screenshot(path=str(Path(PICTURES) / f"{name}.png"))


def test_matrix_leads_to_cases_and_a_case(show: Callable[..., Page]) -> None:
    page = show(SMALL)
    cells = page.locator(".matrix button")
    assert cells.count() > 0 and cells.count() % 3 == 0
    picture(page, "overview-light")
    cells.nth(1).click()
    page.wait_for_selector(".view .row")
    assert "tab=cases" in page.url and "a=torch." in page.url and "r=" in page.url
    page.locator(".view .row").first.click()
    page.wait_for_selector("#detail h3")
    page.wait_for_function("!document.getElementById('wait')")
    text = page.inner_text("#detail")
    for part in ("CPU and device", "Operators launched", "aclnn", "Proof", "Values compared", "Ascend910B4"):
        assert part in text, part
    picture(page, "case-light")
    page.keyboard.press("Escape")
    assert page.locator("#detail").is_hidden()


def test_search_filters_and_the_address(show: Callable[..., Page]) -> None:
    page = show(SMALL, "lang=en&tab=cases")
    whole = page.inner_text("#found")
    page.keyboard.press("/")
    page.keyboard.type("dropout reentrant")
    assert page.inner_text("#found") != whole
    names = page.locator(".view .r-name").all_inner_texts()
    assert names and all("dropout" in n and "reentrant" in n for n in names)
    address = page.url
    page.reload()
    page.wait_for_selector(".view .row")
    assert page.url == address and page.locator(".view .r-name").all_inner_texts() == names
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Clear").click()
    assert page.inner_text("#found") == whole
    page.go_back()
    page.wait_for_function(f"document.querySelectorAll('.view .row').length === {len(names)}")
    page.fill("#search", "nothing has this name")
    assert "No case matches" in page.inner_text(".view")


def test_keyboard(show: Callable[..., Page]) -> None:
    page = show(SMALL)
    page.keyboard.press("2")
    page.wait_for_selector(".view .row")
    for _ in range(3):
        page.keyboard.press("j")
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    page.wait_for_function("!document.getElementById('detail').hidden")
    assert page.inner_text("#detail h2") == page.locator(".view .row.at .r-name").inner_text()
    page.keyboard.press("j")
    assert page.inner_text("#detail h2") == page.locator(".view .row.at .r-name").inner_text()
    page.keyboard.press("Escape")
    page.keyboard.press("t")
    assert page.get_attribute("html", "data-theme") == "dark" and "theme=dark" in page.url
    page.keyboard.press("l")
    assert page.get_attribute("html", "lang") == "zh" and "用例" in page.inner_text("#tabs")
    page.keyboard.press("?")
    assert "快捷键" in page.inner_text("dialog")


@pytest.mark.parametrize("tab", ["overview", "cases", "patches", "audit", "docs", "environments", "timings"])
@pytest.mark.parametrize(
    "look",
    [("light", 1360, "en"), ("dark", 1360, "en"), ("light", 390, "zh"), ("dark", 390, "en"), ("light", 1360, "zh")],
)
def test_every_tab_fits(show: Callable[..., Page], tab: str, look: tuple[str, int, str]) -> None:
    scheme, width, lang = look
    page = show(SMALL, f"lang={lang}&tab={tab}", width, 844, scheme)
    assert page.inner_text("#main").strip()
    wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert wide <= 0, f"{wide} px too wide"
    picture(page, f"{tab}-{scheme}-{width}-{lang}")


def test_paper_has_everything(show: Callable[..., Page]) -> None:
    page = show(SMALL)
    page.emulate_media(media="print")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    text = page.inner_text("#print")
    for part in ("APIs and releases", "Checklist", "Audit", "Documentation", "Machine"):
        assert part in text, part
    assert page.locator("#main").is_hidden()
    if PICTURES:
        page.pdf(path=str(Path(PICTURES) / "paper.pdf"))


def test_markup_in_output_is_text(show: Callable[..., Page]) -> None:
    page = show(BIG, "lang=en&tab=cases&c=0")
    page.wait_for_function("!document.getElementById('wait')")
    assert "</script><script>document.title='broken'</script><b id=broken>bold</b>" in page.inner_text(
        "#detail pre.output"
    )
    assert page.title() == "bench" and page.locator("#broken").count() == 0


def test_many_cases(show: Callable[..., Page]) -> None:
    opened, filtered = [], []
    for _ in range(3):
        start = time.monotonic()
        page = show(BIG, "lang=en&tab=cases")
        page.wait_for_selector(".view .row")
        opened.append(time.monotonic() - start)
    assert "50,000" in page.inner_text("#found")
    assert page.locator(".view .row").count() < 120, "only the rows that are seen exist"
    for words in ("operation_123", "test_case_007 2.10.0", "differs 17 of", "nothing"):
        filtered.append(
            page.evaluate(
                """(words) => { const s = document.getElementById("search"), t = performance.now(); s.value = words;
                s.dispatchEvent(new Event("input")); document.body.offsetHeight; return performance.now() - t; }""",
                words,
            )
        )
    page.fill("#search", "operation_123")
    assert page.inner_text("#found").startswith("100 of 50,000")
    page.evaluate("document.querySelector('.view').scrollTop = 1e9")
    print(f"\n50,000 cases: open {min(opened):.2f} s (best of {len(opened)})")
    print(f"filter {min(filtered):.0f} to {max(filtered):.0f} ms")
    picture(page, "many")
