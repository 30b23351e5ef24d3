"""The screenshots of docs/guides/choose-epsilon.md, taken in Chromium from a real `labeldp explore`.

Run: python benchmarks/explore_pictures.py [--out docs/screenshots]

Needs chromium, chromedriver and the extras explore and test.
"""

from __future__ import annotations

import argparse
import io
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from PIL import Image
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.keys import Keys

from labeldp.explore.server import ADDRESS, free_port

PATIENCE = 120
COLOURS = 96
"""Enough for a page, and small files."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("docs/screenshots"))
    folder = parser.parse_args().out
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port(None)
    server = subprocess.Popen([sys.executable, "-m", "labeldp", "explore", "--no-browser", "--port", str(port)])
    try:
        until(lambda: healthy(port))
        with tempfile.TemporaryDirectory() as profile:
            browser = chromium(profile)
            first_screen(browser, port, folder / "explore.png")
            two_labels(browser, port, folder / "explore-one-label.png")
            browser.quit()
    finally:
        server.terminate()
        server.wait()


def first_screen(browser: webdriver.Chrome, port: int, path: Path) -> None:
    """The answer and the advisor's curve, on a light screen of 1280 pixels."""
    open_page(browser, port, width=1280, height=1130, dark=False)
    save(browser, path)


def two_labels(browser: webdriver.Chrome, port: int, path: Path) -> None:
    """What two labels are reported as, on a dark telephone."""
    open_page(browser, port, width=390, height=1250, dark=True)
    press(browser, "[data-testid=stMain] button", "One label")
    wait_for(browser, "is reported as one of")
    press(browser, "input[aria-label='Compare with another label']")
    wait_for(browser, "times as likely for a label of")
    thumb = browser.find_elements("css selector", "[data-testid=stMain] [data-testid=stSlider] input[type=range]")[1]
    for _ in range(2):
        thumb.send_keys(Keys.PAGE_DOWN)
    save(browser, path)


def chromium(profile: str) -> webdriver.Chrome:
    options = Options()
    options.binary_location = shutil.which("chromium") or sys.exit("install chromium")
    for flag in ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"):
        options.add_argument(flag)
    options.add_argument(f"--user-data-dir={profile}")
    return webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))


def open_page(browser: webdriver.Chrome, port: int, *, width: int, height: int, dark: bool) -> None:
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
    browser.get(f"http://{ADDRESS}:{port}")
    wait_for(browser, "What ε = 1 risks at worst")


def press(browser: webdriver.Chrome, selector: str, holding: str = "") -> None:
    script = "return [...document.querySelectorAll(arguments[0])].find(each => each.innerText.includes(arguments[1]))"
    browser.execute_script("arguments[0].click()", until(lambda: browser.execute_script(script, selector, holding)))


def wait_for(browser: webdriver.Chrome, words: str) -> None:
    until(lambda: words in browser.execute_script("return document.body.innerText"))


def save(browser: webdriver.Chrome, path: Path) -> None:
    """A screenshot as soon as two in a row are alike."""
    before, now = b"", browser.get_screenshot_as_png()
    while before != now:
        time.sleep(1)
        before, now = now, browser.get_screenshot_as_png()
    Image.open(io.BytesIO(now)).convert("RGB").quantize(COLOURS).save(path, optimize=True)
    print(f"{path}: {path.stat().st_size / 1000:.0f} kB")


def healthy(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://{ADDRESS}:{port}/_stcore/health", timeout=5):
            return True
    except OSError:
        return False


def until(found):
    end = time.monotonic() + PATIENCE
    while not (result := found()):
        if time.monotonic() > end:
            sys.exit("the page did not get there in time")
        time.sleep(0.1)
    return result


if __name__ == "__main__":
    main()
