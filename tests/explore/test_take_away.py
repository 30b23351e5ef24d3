"""What the page hands out works: the command and the Python call make the release that the page showed, and files read back."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp import Message, Prior
from labeldp.artifact.description import total_epsilon
from labeldp.explore.answers import Question, designed, headline
from labeldp.explore.exchange import FIGURES, Names, advise_command, command, figure, prior_csv, python_call
from labeldp.mechanisms import Mechanism
from labeldp.plots import in_words
from labeldp.plots.axes import image

pytestmark = pytest.mark.browser

SMALL = Question(lower=0, upper=52, whole=True, distribution="poisson:mean=6", records=2000, epsilon=0.7)
ODD = Names(source="my labels' file.parquet", label="a$b", id='i"d', out="out; rm *")


def write_labels(folder, names, labels=None):
    labels = np.random.default_rng(0).poisson(6, 2000) if labels is None else labels
    columns = {names.label: labels} | ({names.id: np.arange(len(labels))} if names.id else {})
    pq.write_table(pa.table(columns), folder / names.source)


def run(text, folder):
    """Run a command as a POSIX shell would, with this Python's labeldp."""
    script = text.replace("labeldp ", f"'{sys.executable}' -m labeldp ", 1)
    return subprocess.run(["sh", "-c", script], cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("question", "names"),
    [
        (SMALL, Names()),
        (replace(SMALL, mechanism="rr-on-bins", loss="pinball(0.9)", public=True), ODD),
        (Question(public=True, records=2000, distribution="exponential:mean=80"), Names()),
        (
            Question(lower=-2.5, upper=60.25, cells=50, records=2000, mechanism="rr-on-bins"),
            replace(Names(), id="", source="-x.parquet"),
        ),
    ],
    ids=["whole numbers", "awkward names and a public prior", "a public shape", "negative bounds, no ids"],
)
def test_the_command_and_the_python_call_make_the_release_of_the_page(tmp_path, monkeypatch, question, names):
    write_labels(tmp_path, names)
    (tmp_path / "prior.csv").write_text(prior_csv(question.labels), encoding="utf-8")
    done = run(command(question, names), tmp_path)
    assert done.returncode == 0, done.stderr
    by_command = Message.open(tmp_path / names.out)
    (tmp_path / names.out).rename(tmp_path / "first")
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # advice about few records
        exec(python_call(question, names), {})
    by_call = Message.open(tmp_path / names.out)
    shown = designed(question)
    for message in (by_command, by_call):
        made = message.mechanism
        assert made.domain == question.grid
        assert made.loss == question.loss
        assert float(total_epsilon(made)) == pytest.approx(question.epsilon)
        assert made.epsilon == shown.epsilon_labels
        if question.public:
            assert np.array_equal(made.outputs, shown.mechanism.outputs)
            assert made == shown.mechanism  # nothing is drawn, so it is the very mechanism of the page


def test_the_home_folder_stands_in_place_of_a_tilde(monkeypatch):
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.setenv("USERPROFILE", "/home/someone")
    names = Names(source="~/labels.parquet", out="~/sent")
    for text in (command(SMALL, names), python_call(SMALL, names)):
        assert "/home/someone/labels.parquet" in text
        assert "/home/someone/sent" in text
        assert "~" not in text


def test_the_advise_command_prints_the_prediction_on_top(tmp_path):
    done = run(advise_command(SMALL) + " --json", tmp_path)
    found = json.loads(done.stdout)["predictions"][0]
    assert found["labels"]["r2"] == headline(SMALL).trained.r2
    assert advise_command(replace(SMALL, distribution=Prior([0, 1], [1, 1]))) is None


@pytest.mark.parametrize("mechanism", ["auto", "rr-on-bins", "discrete-laplace"])
def test_the_mechanism_reads_back(mechanism):
    made = designed(replace(SMALL, mechanism=mechanism)).mechanism
    assert Mechanism.from_json(made.to_json()) == made


def test_the_distribution_reads_back(tmp_path):
    path = tmp_path / "prior.csv"
    path.write_text(prior_csv(SMALL.labels), encoding="utf-8")
    assert Prior.from_csv(path) == SMALL.labels


@pytest.mark.parametrize("name", FIGURES)
def test_figures_are_pictures_with_words(name):
    drawn = figure(name, SMALL, label=6.0, names=("auto", "rr-on-bins"))
    text = image(drawn, "svg", alt=in_words(drawn)).decode()
    assert text.startswith("<?xml")
    assert 'aria-label="' in text
    assert "://" not in text.replace("http://www.w3.org", "").replace("http://purl.org", "").replace(
        "http://creativecommons.org", ""
    ).replace("https://matplotlib.org", "")
    if name == "outputs over the distribution":
        outputs = designed(SMALL).mechanism.outputs
        assert drawn.get_xlim()[0] < outputs.min() < 0  # no report is cut off at the bounds
        assert drawn.get_xlim()[1] > outputs.max()
    assert image(drawn, "png", alt=in_words(drawn)).startswith(b"\x89PNG")
