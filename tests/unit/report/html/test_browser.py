"""The HTML reports in Chromium, from a file, as a reader opens them."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on the PATH")

COMMANDS = ("diff", "check", "project", "suite", "scan")

SCHEMES = ("light", "dark")

WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 390, "height": 844}


DRAWN = """() => {
    const probe = document.body.appendChild(document.createElement("p"));
    probe.style.color = "var(--quiet)";
    const asked = getComputedStyle(probe).color;
    probe.remove();
    return getComputedStyle(document.querySelector(".chart .xtick text")).fill === asked;
}"""
"""Whether the plots have the colours of the scheme: they are drawn anew a while after it has changed."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def pages(
    browser: Any, documents: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, tuple[Any, list[str]]]]:
    """Every report opened, with what went wrong in it and what it asked for."""
    folder = tmp_path_factory.mktemp("pages")
    opened = {}
    for name, text in documents.items():
        file = Path(folder / f"{name}.html")
        file.write_text(text, encoding="utf-8", errors="replace")
        page = browser.new_page(viewport=WIDE, color_scheme="light")
        troubles: list[str] = []
        page.on("console", lambda said, troubles=troubles: troubles.append(f"{said.type}: {said.text}"))
        page.on("pageerror", lambda error, troubles=troubles: troubles.append(str(error)))
        page.on("dialog", lambda dialog, troubles=troubles: (troubles.append("a hostile name ran"), dialog.dismiss()))
        address = file.as_uri()
        page.on("request", lambda asked, troubles=troubles, own=address: _known(asked.url, own, troubles))
        page.goto(address)
        opened[name] = page, troubles
    yield opened
    for page, _ in opened.values():
        page.close()


def _known(url: str, own: str, troubles: list[str]) -> None:
    if url != own and not url.startswith(("data:", "blob:")):
        troubles.append(f"asked for {url}")


@pytest.fixture
def diff(pages: dict[str, tuple[Any, list[str]]]) -> Any:
    page = pages["diff"][0]
    page.set_viewport_size(WIDE)
    return page


def background(page: Any) -> str:
    return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))


@pytest.mark.parametrize("command", COMMANDS)
def test_it_loads_and_is_readable_wide_and_narrow_in_light_and_dark(pages, command: str) -> None:
    page, troubles = pages[command]
    charts = page.locator(".chart").count()
    seen = set()
    for size in (WIDE, NARROW):
        page.set_viewport_size(size)
        for scheme in SCHEMES:
            page.emulate_media(color_scheme=scheme)
            page.wait_for_function("() => document.documentElement.scrollWidth <= innerWidth", timeout=10_000)
            page.wait_for_function(DRAWN, timeout=10_000)
            assert page.locator(".chart .cartesianlayer").count() == charts > 0
            ink = page.evaluate("getComputedStyle(document.querySelector('.chart .xtick text')).fill")
            assert ink != background(page)
            seen.add((scheme, background(page), ink))
    assert len(seen) == len(SCHEMES)
    page.emulate_media(color_scheme="light")
    assert troubles == []


def test_tables_show_all_of_their_columns(pages) -> None:
    for page, _ in pages.values():
        page.set_viewport_size(WIDE)
        cut = "[...document.querySelectorAll('.scroll')].filter((one) => one.scrollWidth > one.clientWidth + 1).length"
        assert page.evaluate(cut) == 0


def test_the_plot_by_depth_has_a_mark_a_layer(diff) -> None:
    marks = [
        diff.locator("#chart-depth .scatterlayer .trace").nth(k).locator("path.point").count()
        for k in range(diff.locator("#chart-depth .scatterlayer .trace").count())
    ]
    assert marks == [0, 12, 9, 2]
    assert diff.locator("#chart-cause-0 path.point").count() == 3


def test_a_hostile_name_is_read_as_it_is(diff, hostile: str) -> None:
    assert hostile in diff.locator("article").first.inner_text()
    assert diff.locator("img, script:not([type])").count() == 2  # the page's own scripts
    diff.evaluate("Plotly.Fx.hover('chart-depth', [{curveNumber: 1, pointNumber: 0}])")
    said = diff.locator("#chart-depth .hoverlayer").text_content()
    assert said.startswith("0 <b>'\"</script><s")
    assert "another function" not in said


def test_rows_are_filtered_and_sorted(diff) -> None:
    box = diff.locator(".table", has=diff.locator("th", has_text="excess"))
    shown = box.locator("tbody tr:visible")
    assert shown.count() == 12
    box.locator("select").select_option("another function")
    assert shown.count() == 1
    assert box.locator(".count").inner_text() == "1 of 12 rows"
    box.locator("select").select_option("")
    box.locator("input").fill("11 <script>ALERT")
    assert shown.count() == 2  # the 11th, and the 12th, whose name has the number
    box.locator("input").fill("")
    excess = box.locator("th button", has_text="excess")
    excess.click()
    excess.click()
    assert box.locator("th[aria-sort=descending]").inner_text().startswith("excess")
    numbers = [shown.nth(k).locator("td").nth(6).inner_text() for k in range(shown.count())]
    assert numbers == ["1e+03", "1e+03", *["1"] * 9, "–"]


def test_the_slider_tells_the_functions_at_an_input(diff) -> None:
    explorer = diff.locator(".explorer")
    explorer.locator("input").fill("140")  # the middle is 120, a step 0.05
    assert explorer.locator("output").inner_text() == "1.00"
    values = [explorer.locator("tbody tr").nth(k).locator("td").nth(1).inner_text() for k in range(3)]
    assert values == ["0.841345", "0.841192", "0.845796"]
    assert explorer.locator("tbody tr").nth(1).locator("td").nth(2).inner_text() == "-0.000152755"
    lines = diff.evaluate("[...document.querySelectorAll('.explorer .chart')].map((one) => one.layout.shapes[0].x0)")
    assert lines == [1, 1]


def test_a_fix_is_copied_as_it_stands(diff, hostile: str) -> None:
    diff.context.grant_permissions(["clipboard-read", "clipboard-write"])
    diff.locator(".copy").first.click()
    diff.locator(".copy", has_text="copied").wait_for()
    assert diff.evaluate("navigator.clipboard.readText()") == hostile
