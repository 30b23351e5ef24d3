"""The notebooks open as they are, run from an empty folder, print what they are stored with, and leave nothing behind."""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path

import pytest

from page_runner import assert_shows, child_environment
from public_names import is_public
from seeded_words import seed_of

nbformat = pytest.importorskip("nbformat", reason="notebooks need the extra docs: pip install 'labeldp[docs]'")

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "notebooks"
NAMES = ["choosing-epsilon", "durations", "lightgbm", "poisson-counts", "scikit-learn"]
every_notebook = pytest.mark.parametrize("name", NAMES)


def read(name):
    return nbformat.read(FOLDER / f"{name}.ipynb", as_version=nbformat.NO_CONVERT)


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def outputs(notebook):
    return [output for cell in code_cells(notebook) for output in cell.outputs]


def printed(cell):
    """Return all that a cell printed, in however many pieces."""
    return "".join(output.text for output in cell.outputs if output.output_type == "stream")


def prose(notebook):
    return "\n\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")


def test_all_notebooks_are_tested():
    assert sorted(path.stem for path in FOLDER.glob("*.ipynb")) == NAMES


@every_notebook
def test_it_opens_as_it_is(name):
    notebook = read(name)
    nbformat.validate(notebook)
    assert (notebook.nbformat, notebook.nbformat_minor) >= (4, 5)
    assert notebook.metadata.kernelspec.name == "python3"
    assert len({cell.id for cell in notebook.cells}) == len(notebook.cells)
    assert 8 <= len(notebook.cells) <= 15
    assert (FOLDER / f"{name}.ipynb").stat().st_size < 300_000


@every_notebook
def test_it_is_stored_with_its_output_and_without_a_trace_of_a_machine(name):
    notebook = read(name)
    assert [cell.execution_count for cell in code_cells(notebook)] == list(range(1, len(code_cells(notebook)) + 1))
    assert all(cell.outputs for cell in code_cells(notebook) if "print(" in cell.source)
    assert {output.output_type for output in outputs(notebook)} <= {"stream", "execute_result", "display_data"}
    assert all(output.name == "stdout" for output in outputs(notebook) if output.output_type == "stream")
    assert not any("execution" in cell.metadata for cell in notebook.cells)  # times of day
    assert not re.search(r"/(?:home|root|tmp|usr|var|work)/|site-packages", nbformat.writes(notebook))


@every_notebook
def test_it_has_a_picture_that_fits_a_page(name):
    pictures = [output for output in outputs(read(name)) if "image/png" in output.get("data", {})]
    assert pictures
    assert all(output.metadata["image/png"]["width"] <= 600 for output in pictures)


@every_notebook
def test_it_imports_public_names_only(name):
    for cell in code_cells(read(name)):
        for statement in ast.walk(ast.parse(cell.source)):
            if isinstance(statement, ast.ImportFrom) and str(statement.module).startswith("labeldp"):
                assert [alias.name for alias in statement.names if not is_public(statement.module, alias.name)] == []
            if isinstance(statement, ast.Import):
                assert not any(alias.name.startswith("labeldp") for alias in statement.names)


@every_notebook
def test_its_links_lead_somewhere(name):
    for link in re.findall(r"\]\(([^)]+)\)", prose(read(name))):
        assert (FOLDER / link.partition("#")[0]).exists(), link


def execute(notebook, name, folder):
    """Run a notebook in an empty folder, with draws seeded by its name. Returns the folders that it could write to."""
    nbclient = pytest.importorskip("nbclient", reason="notebooks need the extra docs: pip install 'labeldp[docs]'")
    places = {key: folder / key for key in ("notebook", "HOME", "TMPDIR", "IPYTHONDIR", "MPLCONFIGDIR")}
    for place in places.values():
        place.mkdir()
    environment = os.environ | {key: str(place) for key, place in places.items() if key.isupper()}
    environment |= child_environment(seed_of(name))
    where = {"metadata": {"path": str(places["notebook"])}}
    client = nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3", resources=where, record_timing=False)
    client.execute(env=environment)
    return [places[key] for key in ("notebook", "HOME", "TMPDIR")]


@pytest.mark.pages
@every_notebook
def test_it_runs_in_an_empty_folder_and_prints_what_is_stored(name, tmp_path):
    if name == "lightgbm":
        pytest.importorskip("lightgbm", reason="this notebook needs the extra docs: pip install 'labeldp[docs]'")
    stored, fresh = read(name), read(name)
    written = execute(fresh, name, tmp_path)
    for before, after in zip(code_cells(stored), code_cells(fresh), strict=True):
        assert_shows(printed(before), printed(after), before.source)
        kinds = [sorted(output.get("data", [])) for output in before.outputs if output.output_type != "stream"]
        assert kinds == [sorted(output.get("data", [])) for output in after.outputs if output.output_type != "stream"]
    for place in written:
        assert not list(place.iterdir()), place
