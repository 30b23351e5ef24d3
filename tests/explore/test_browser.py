"""The page in Chromium: a real `labeldp explore`, a real browser, and what a user sees."""

from __future__ import annotations

import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from dataclasses import replace
from pathlib import Path

import pytest

from labeldp import Domain, Prior
from labeldp.explore.answers import RECEIVED, Question, designed, headline, reported
from labeldp.explore.exchange import Names, command, python_call
from labeldp.formatting import plain
from labeldp.mechanisms import Mechanism, RROnBins

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        CHROMIUM is None or DRIVER is None, reason="the page is tested in Chromium: install chromium and chromedriver"
    ),
]
pytest.importorskip("streamlit", reason="the page's tests need the extra explore: pip install 'labeldp[explore]'")

PATIENCE = 60
FIRST = Question()
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"),
    *("--disable-component-update", "--disable-sync"),
)


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = tmp_path_factory.mktemp("server") / "log"
    arguments = [sys.executable, "-m", "labeldp", "explore", "--no-browser", "--port", str(port)]
    with log.open("wb") as output:
        server = subprocess.Popen(arguments, stdout=output, stderr=subprocess.STDOUT)
    try:
        _wait(lambda: _healthy(port) or server.poll() is not None, "the server to start")
        assert server.poll() is None, log.read_text(encoding="utf-8")
        yield f"http://127.0.0.1:{port}"
        assert "Traceback" not in log.read_text(encoding="utf-8")
    finally:
        server.send_signal(signal.SIGINT)
        try:
            server.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    options = Options()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    driver.command_executor.client_config.timeout = 2 * PATIENCE
    yield driver
    driver.quit()


@pytest.fixture
def page(address, chromium):
    return Page(chromium, address)


class Page:
    """What a user does with the page, and what stands on it."""

    def __init__(self, driver, address, *, width=1280, dark=False):
        self.driver, self.address = driver, address
        metrics = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
        driver.get(address)
        self.wait_for("is predicted to reach")

    def text(self, part="stMain"):
        script = "return document.querySelector(`[data-testid=${arguments[0]}]`)?.innerText ?? ''"
        return re.sub(r"\s+", " ", self.driver.execute_script(script, part))

    def wait_for(self, words, part="stMain"):
        _wait(lambda: words in self.text(part), f"{words!r} on the page, which says: {self.text(part)[:1500]}")

    def find(self, selector, holding=""):
        """The first element of this kind whose text or label holds some words, as soon as there is one."""
        script = """return [...document.querySelectorAll(arguments[0])].find(
            each => (each.innerText + ' ' + (each.getAttribute('aria-label') ?? '')).includes(arguments[1])) ?? null"""
        return _wait(lambda: self.driver.execute_script(script, selector, holding), f"{selector} with {holding!r}")

    def click(self, selector, holding=""):
        element = self.find(selector, holding)
        self.driver.execute_script("arguments[0].scrollIntoView({block: 'center'}); arguments[0].click()", element)

    def open(self, section, words):
        self.click("[data-testid=stMain] button", section)
        self.wait_for(words)

    def move(self, slider, key):
        """Press a key on the slider of this name."""
        holder = self.find("[data-testid=stSlider]", slider)
        thumb = holder.find_element("css selector", "[role=slider], input[type=range]")
        thumb.send_keys(key)

    def choose(self, box, value):
        """Choose a value in the select box of this name, as a user who types it."""
        from selenium.webdriver.common.keys import Keys

        entry = self.find("[data-testid=stSelectbox]", box).find_element("css selector", "input")
        self.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", entry)
        entry.send_keys(value)
        self.find("[role=option]", value)
        entry.send_keys(Keys.ENTER)

    def upload(self, path):
        self.find("[data-testid=stFileUploader]")
        entry = self.driver.find_element("css selector", "[data-testid=stFileUploader] input[type=file]")
        entry.send_keys(str(path))

    def download(self, button, folder, name):
        behaviour = {"behavior": "allow", "downloadPath": str(folder)}
        self.driver.execute_cdp_cmd("Browser.setDownloadBehavior", behaviour)
        self.click("[data-testid=stDownloadButton] button", button)
        path = folder / name
        _wait(path.exists, f"the download of {name}")
        return path

    def code(self):
        script = "return [...document.querySelectorAll('[data-testid=stCode] code')].map(each => each.textContent)"
        return self.driver.execute_script(script)


def test_it_starts_with_an_answer_from_this_machine_only(page):
    page.wait_for(headline(FIRST).sentence)
    assert "Deploy" not in page.driver.find_element("css selector", "body").text
    for section in ("Reported values", "All labels", "Compare", "Private histogram", "Command and files"):
        page.click("[data-testid=stMain] button", section)
    page.wait_for("On the command line")
    hosts = set()
    for entry in page.driver.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] in {"Network.requestWillBeSent", "Network.webSocketCreated"}:
            url = message["params"].get("url") or message["params"]["request"]["url"]
            if url.startswith(("http", "ws")):
                hosts.add(url.split("/")[2])
    assert hosts == {page.address.removeprefix("http://")}


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="reads Linux's table of sockets")
def test_nobody_else_can_reach_the_server(address):
    port = int(address.rpartition(":")[2])
    lines = [
        line.split() for table in ("tcp", "tcp6") for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]
    ]
    listening = [line[1] for line in lines if line[3] == "0A" and line[1].endswith(f":{port:04X}")]
    assert listening == [f"0100007F:{port:04X}"]


def test_moving_epsilon_moves_the_answer_and_the_mark(page):
    from selenium.webdriver.common.keys import Keys

    page.move("ε (privacy budget", Keys.ARROW_RIGHT)
    page.wait_for(headline(replace(FIRST, epsilon=1.2)).sentence)
    _wait(lambda: "ε = 1.2" in page.find("[data-testid=stVegaLiteChart]").text, "the mark at ε = 1.2 in the chart")
    page.move("ε (privacy budget", Keys.ARROW_LEFT)
    page.wait_for(headline(FIRST).sentence)


def test_a_label_of_the_users_choice_is_told_in_a_sentence(page):
    from selenium.webdriver.common.keys import Keys

    page.open("One label", "A label of 78 is reported as")
    mechanism = designed(FIRST).mechanism
    page.wait_for(reported(mechanism, 78.0).sentence())
    page.move("A label of your choice", Keys.ARROW_RIGHT)
    page.wait_for(reported(mechanism, 79.0).sentence())
    page.click("[data-testid=stMain] button", "One label")  # a second click keeps the section and its highlight
    page.move("A label of your choice", Keys.ARROW_RIGHT)
    page.wait_for(reported(mechanism, 80.0).sentence())
    page.find(
        "[data-testid=stMain] button[data-testid$=Active], [data-testid=stMain] button[aria-checked=true]", "One label"
    )


def test_switching_the_loss_switches_the_design(page):
    page.open("Reported values", "different values")
    page.choose("Loss", "absolute")
    made = designed(replace(FIRST, loss="absolute"))
    page.wait_for("Everything below is designed for absolute loss")
    page.wait_for(f"reports {made.mechanism.outputs.size:,} different values")
    page.wait_for(f"its expected absolute loss is {plain(made.expected_loss)}")


def test_an_uploaded_distribution_is_used_and_wrong_files_are_explained_in_place(page, tmp_path):
    good = Prior([0, 10, 20, 50], [4, 3, 2, 1])
    good.to_csv(tmp_path / "prior.csv")
    asked = Question(lower=0, upper=50, whole=True, distribution=good)
    page.click("[data-testid=stRadio] label", "A file")
    page.upload(tmp_path / "prior.csv")
    page.wait_for(headline(asked).sentence)
    wrong = tmp_path / "![x](http___127.0.0.2_x.png).csv"
    wrong.write_text("value,mass\n0,1\n1,-1\n", encoding="utf-8")
    page.upload(wrong)
    page.wait_for(f"{wrong.name}: prior masses must not be negative", "stSidebar")
    page.wait_for("The page goes on with prior.csv", "stSidebar")
    page.wait_for("The uploaded file was not used")
    page.wait_for(headline(asked).sentence)
    assert not page.driver.find_elements("css selector", "[data-testid=stSidebar] [data-testid=stAlert] img")


def test_a_received_mechanism_can_be_looked_at(page, tmp_path):
    prior = Prior([0, 10, 20, 50], [4, 3, 2, 1])
    received = RROnBins.optimal(prior, 0.8, domain=Domain.integers(0, 50))
    (tmp_path / "mechanism.json").write_text(received.to_json(), encoding="utf-8")
    page.click("[data-testid=stRadio] label", "A file")
    page.upload(tmp_path / "mechanism.json")
    asked = Question(
        lower=0, upper=50, whole=True, distribution=prior, epsilon=0.8, mechanism=RECEIVED, received=received
    )
    page.wait_for(headline(asked).sentence)
    page.open("Reported values", f"The received mechanism reports {received.outputs.size} different values")


def test_what_is_taken_away_is_what_was_shown(page, tmp_path):
    page.open("Command and files", "The same in Python")
    _wait(lambda: len(page.code()) >= 2, "the command and the call")
    assert page.code()[:2] == [command(FIRST, Names()), python_call(FIRST, Names())]
    path = page.download("Mechanism (JSON)", tmp_path, "mechanism.json")
    assert Mechanism.from_json(path.read_text(encoding="utf-8")) == designed(FIRST).mechanism
    picture = page.download("Figure (SVG)", tmp_path, "predicted-error.svg")
    assert "aria-label" in picture.read_text(encoding="utf-8")
    prior = page.download("Distribution (CSV)", tmp_path, "prior.csv")
    assert Prior.from_csv(prior) == FIRST.labels


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_it_fits_a_telephone_and_follows_the_theme(address, chromium, dark):
    page = Page(chromium, address, width=390, dark=dark)
    for section in (
        "Reported values",
        "One label",
        "All labels",
        "Compare",
        "Private histogram",
        "Command and files",
        "Which ε",
    ):
        page.click("[data-testid=stMain] button", section)
    page.wait_for("What ε = 1 risks at worst")
    wide = "const main = document.querySelector('[data-testid=stMain]'); return [main.scrollWidth, main.clientWidth, document.documentElement.scrollWidth]"
    scroll, client, document = page.driver.execute_script(wide)
    assert scroll <= client
    assert document <= 390
    sentence = page.find("h5")
    colour = "const c = getComputedStyle(arguments[0])[arguments[1]].match(/[\\d.]+/g).map(Number); return c[0] + c[1] + c[2]"
    ink = page.driver.execute_script(colour, sentence, "color")
    paper = page.driver.execute_script(colour, page.find("[data-testid=stApp]"), "backgroundColor")
    assert (ink > paper) == dark
    assert abs(ink - paper) > 450  # of 765


def _healthy(port):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False


def _wait(found, what):
    """What a function finds, as soon as it finds something."""
    end = time.monotonic() + PATIENCE
    while not (result := found()):
        assert time.monotonic() < end, f"waited {PATIENCE} s for {what}"
        time.sleep(0.1)
    return result
