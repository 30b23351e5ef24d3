"""The documentation site: it builds without a warning, every link leads somewhere, nothing comes from elsewhere, nothing is missing.

The site is built as `make docs` does, which is quick where that was run before. Its pages are found as a reader finds them: by
following links from the first one.
"""

from __future__ import annotations

import posixpath
import re
import shutil
import subprocess
import sys
import tomllib
import zlib
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from typer.main import get_command

from labeldp.cli import app
from public_names import PUBLIC_NAMES

pytest.importorskip("sphinx", reason="the site needs labeldp[docs]")
pytest.importorskip("furo", reason="the site needs labeldp[docs]")

ROOT = Path(__file__).resolve().parents[1]
SITE = ROOT / "docs" / "_build" / "html"
pytestmark = pytest.mark.site


class Page(HTMLParser):
    """What a page links to, loads, names and says."""

    def __init__(self, path):
        super().__init__()
        self.links, self.loads, self.anchors, self.pictures, self.text = [], [], set(), [], []
        self.titles = 0
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.anchors.update(filter(None, [given.get("id"), given.get("name")]))
        self.titles += tag == "h1"
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        if tag == "link" and given.get("rel") in {"stylesheet", "icon", "preload", "prefetch", "preconnect"}:
            self.loads.append(given["href"])
        if tag == "link" and given.get("rel") in {"next", "prev", "index", "search"}:
            self.links.append(given["href"])
        if tag in {"script", "img", "iframe", "source", "video"} and given.get("src"):
            self.loads.append(given["src"])
        if tag == "img":
            self.pictures.append((given["src"], given.get("alt", "")))

    def handle_data(self, data):
        self.text.append(data)


@pytest.fixture(scope="session")
def pages():
    """Every page that a reader can reach, by its path in the site."""
    # The command of the Makefile, but with this Python.
    recipe = re.search(
        r"^docs:.*\n\t\$\(BIN\)/python (.+)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE
    )
    command = [sys.executable, *recipe[1].split()]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr[-5000:]
    found, waiting = {}, ["index.html", "genindex.html", "search.html"]
    while waiting:
        name = waiting.pop()
        if name not in found and (SITE / name).is_file():
            found[name] = Page(SITE / name)
            waiting += [path for path, _ in local_links(name, found[name]) if path.endswith(".html")]
    return found


def local(name, link):
    """The path in the site that a link on page `name` means, and the anchor; None for another site."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return None
    path = posixpath.normpath(posixpath.join(posixpath.dirname(name), unquote(parts.path))) if parts.path else name
    assert not path.startswith(".."), f"{name}: {link} leads out of the site"
    return path, unquote(parts.fragment)


def local_links(name, page):
    return [target for link in page.links if (target := local(name, link))]


def test_every_link_leads_to_a_page_and_a_place_on_it(pages):
    linked = {(path, anchor): name for name, page in pages.items() for path, anchor in local_links(name, page)}
    for (path, anchor), name in linked.items():
        assert (SITE / path).is_file(), f"{name} links to {path}"
        assert not anchor or path not in pages or anchor in pages[path].anchors, f"{name} links to {path}#{anchor}"
    assert len(pages) > 150  # otherwise the links were not followed


def test_no_page_loads_anything_from_elsewhere(pages):
    for name, page in pages.items():
        for address in page.loads:
            if not address.startswith("data:"):
                target = local(name, address)
                assert target, f"{name} loads {address}"
                assert (SITE / target[0]).is_file(), f"{name}: {address}"
    styles = list(SITE.rglob("*.css"))
    assert styles
    for style in styles:
        text = style.read_text(encoding="utf-8")
        assert not re.search(r"@import|url\(\s*['\"]?(?:https?:)?//", text), style.name


def test_every_page_has_one_title_and_every_picture_says_what_it_shows(pages):
    for name, page in pages.items():
        if not name.startswith(("_modules/", "search.html")):  # the title of the search comes with its results
            assert page.titles == 1, name
        for source, alt in page.pictures:
            if "_thumb." not in source:  # its title stands beside it
                assert len(alt.split()) > 12, f"{name}: {source} says {alt!r}"


def inventory():
    """The names of all objects that have a place in the reference."""
    packed = (SITE / "objects.inv").read_bytes().split(b"\n", 4)[4]
    return set(re.findall(r"^(\S+) py:", zlib.decompress(packed).decode(), re.MULTILINE))


@pytest.mark.usefixtures("pages")
def test_every_public_name_is_in_the_reference():
    assert set(import_module("labeldp").__all__) == PUBLIC_NAMES["labeldp"]
    assert {f"{module}.{name}" for module, names in PUBLIC_NAMES.items() for name in names} <= inventory()


@pytest.mark.usefixtures("pages")
def test_methods_have_a_place_in_the_reference():
    assert {
        "labeldp.mechanisms.RROnBins.optimal",
        "labeldp.LabelDPRegressor.fit",
        "labeldp.Ledger.reserve",
    } <= inventory()
    assert "labeldp.LabelDPRegressor.get_params" not in inventory()  # scikit-learn's own


def commands():
    for name, command in get_command(app).commands.items():
        if hasattr(command, "commands"):
            yield from ((f"{name} {inner}", each) for inner, each in command.commands.items())
        else:
            yield name, command


def test_every_command_has_a_page_with_all_its_options_and_examples(pages):
    for name, command in commands():
        text = " ".join(pages[f"reference/command/{name.replace(' ', '-')}.html"].text)
        assert f"labeldp {name}" in text
        options = [each for each in command.params if each.param_type_name == "option"]
        assert {option for each in options for option in each.opts if option not in text} == set(), name
        assert "Examples" in text, f"labeldp {name} --help shows no example"


@pytest.mark.parametrize("name", ["SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_pages_at_the_root_are_whole_on_the_site(pages, name):
    source = re.sub(r"^```.*?^```$", "", (ROOT / name).read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    text = " ".join("".join(pages[f"project/{name.removesuffix('.md').lower()}.html"].text).split())
    headings = re.findall(r"^## (.+)$", source, re.MULTILINE)
    assert headings
    for heading in headings:
        assert heading.replace("`", "") in text
    last = re.sub(r"[`*\[]|\]\([^)]*\)", "", source.strip().splitlines()[-1]).strip()
    assert last.replace("'", "’")[-40:] in text.replace("'", "’")


def test_every_script_of_the_gallery_has_run_and_shows_a_picture(pages):
    scripts = sorted((ROOT / "docs" / "gallery").glob("plot_*.py"))
    assert len(scripts) >= 8
    for script in scripts:
        page = pages[f"pictures/{script.stem}.html"]
        assert any(f"sphx_glr_{script.stem}_001" in source for source, _ in page.pictures), script.name


@pytest.mark.usefixtures("pages")
def test_the_search_knows_the_pages():
    index = (SITE / "searchindex.js").read_text(encoding="utf-8")
    for page in ("guides/labels-party", "reference/command/privatize", "concepts/optimal-bins", "project/security"):
        assert f'"{page}"' in index


def test_what_to_cite_is_the_version_at_hand():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"version = {{{version}}}" in (ROOT / "docs" / "project" / "changelog.md").read_text(encoding="utf-8")


TOO_WIDE = """
const scrolls = element => ["auto", "scroll"].includes(getComputedStyle(element).overflowX);
return [...document.querySelectorAll("article *")].filter(element => {
    const box = element.getBoundingClientRect();
    if (!box.width || box.right <= innerWidth + 1 || getComputedStyle(element).visibility == "hidden") return false;
    for (let above = element.parentElement; above.tagName != "ARTICLE"; above = above.parentElement)
        if (scrolls(above)) return false;
    return true;
}).map(element => element.outerHTML.slice(0, 120));
"""
"""What reaches beyond the right edge and is in no box that scrolls. The theme cuts it off, so that the page's width does not tell."""


@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 1280])
def test_no_page_is_wider_than_the_screen(pages, width):
    """Wide tables and long lines scroll inside their boxes, on a telephone too."""
    webdriver = pytest.importorskip("selenium.webdriver")
    driver = shutil.which("chromedriver")
    if not driver or not shutil.which("chromium"):
        pytest.skip("needs Chromium and its driver")
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"):
        options.add_argument(argument)
    metrics = {"width": width, "height": 900, "pixelRatio": 1.0}
    options.add_experimental_option("mobileEmulation", {"deviceMetrics": metrics})
    with webdriver.Chrome(options=options, service=webdriver.ChromeService(driver)) as browser:
        browser.get(
            "data:text/html,<meta name='viewport' content='width=device-width'><article><p>in<div style='width: 30000px'>out</div></article>"
        )
        assert len(browser.execute_script(TOO_WIDE)) == 1  # it would be found
        wide = {}
        for name in sorted(pages):
            browser.get((SITE / name).as_uri())
            if found := browser.execute_script(TOO_WIDE):
                wide[name] = found[:3]
    assert not wide
