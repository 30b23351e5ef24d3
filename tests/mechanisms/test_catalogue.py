"""A mechanism is entered once, beside its class, and found everywhere."""

from __future__ import annotations

import importlib
import json
import sys
import textwrap
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

import labeldp.mechanisms
from labeldp import Domain, LabelRandomizer, Prior, compare
from labeldp.cli import app
from labeldp.errors import InvalidInput, PrivacyRefused
from labeldp.mechanisms import MECHANISMS, FiniteMechanism, Mechanism, Request, code_values, design
from labeldp.mechanisms import Mechanism as Base
from labeldp.paper.data import criteo_prior
from labeldp.paper.experiments.tasks import get_method

NEW_FILE = """
    '''A mechanism of somebody else's: one file, nothing else touched.'''
    from labeldp.budget import exact_epsilon
    from labeldp.mechanisms.registry import mechanism
    from labeldp.mechanisms.mechanism import Thresholds
    from labeldp.mechanisms.finite import FiniteMechanism
    from labeldp.sampling import ResponseTable
    import numpy as np

    @mechanism(
        "two-ends",
        title="two ends",
        help="answers with one end of the range or the other",
        make=lambda r: TwoEnds(r.domain, r.epsilon),
        colour="#123456",
    )
    class TwoEnds(FiniteMechanism):
        def __init__(self, domain, epsilon):
            ends = np.array([domain.lower, domain.upper])
            super().__init__(
                encoder=Thresholds(np.array([ends.mean()])),
                table=ResponseTable(2, exact_epsilon(epsilon)),
                outputs=ends,
                epsilon_exact=exact_epsilon(epsilon),
                domain=domain,
            )
"""


@pytest.fixture
def two_ends(tmp_path, monkeypatch):
    """One new file in the package's folder, as a developer would add it."""
    (tmp_path / "two_ends.py").write_text(textwrap.dedent(NEW_FILE), encoding="utf-8")
    monkeypatch.setattr(labeldp.mechanisms, "__path__", [*labeldp.mechanisms.__path__, str(tmp_path)])
    monkeypatch.setattr(MECHANISMS, "_complete", False)
    importlib.invalidate_caches()
    yield MECHANISMS["two-ends"]
    MECHANISMS.discard("two-ends")
    sys.modules.pop("labeldp.mechanisms.two_ends", None)


def run(*words):
    return CliRunner().invoke(app, list(words), env={"COLUMNS": "300"})


def test_one_file_is_all_it_takes(two_ends, tmp_path):
    domain = Domain.integers(0, 10)
    made = design("two-ends", Request(domain, 1))
    assert type(made) is two_ends.cls
    assert Mechanism.from_json(made.to_json()) == made
    private = LabelRandomizer(1, domain, mechanism="two-ends").randomize(np.arange(11))
    assert set(private.values("auto")) <= {0.0, 10.0}
    assert code_values(made, "debiased")[0] < 0
    rows = list(compare(Prior.uniform(domain), [1]))
    assert "two-ends" in [row.mechanism for row in rows]
    method = get_method("two-ends")
    assert (method.title, method.colour) == ("two ends", "#123456")
    assert method.expected_loss(criteo_prior(), Domain(0, 400, 401), 1, 1000) > 0
    assert "two ends" not in made.plot().get_title()
    assert "TwoEnds" in made.plot().get_title()


def test_the_command_line_offers_it(two_ends, tmp_path):
    assert two_ends.name in run("privatize", "--help").output
    compared = run("compare", "--dataset", "criteo", "--epsilon", "1", "--mechanisms", "two-ends", "--json")
    assert [row["mechanism"] for row in json.loads(compared.stdout)] == ["two-ends", "not-private", "mean-only"]
    labels = tmp_path / "labels.csv"
    labels.write_text("id,y\n" + "".join(f"{i},{i % 11}\n" for i in range(50)), encoding="utf-8")
    settings = ["--label", "y", "--id", "id", "--epsilon", "1", "--integers", "0:10", "--mechanism", "two-ends"]
    done = run("privatize", str(labels), *settings, "--out", str(tmp_path / "message"), "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["outputs"] == 2


def test_without_the_file_it_is_unknown():
    with pytest.raises(InvalidInput, match="unknown mechanism 'two-ends'"):
        design("two-ends", Request(Domain.integers(0, 10), 1))


@pytest.mark.parametrize("entry", list(MECHANISMS), ids=lambda entry: entry.name)
def test_every_entry_is_whole(entry):
    assert entry.help
    assert not entry.help.endswith(".")
    assert entry.colour.startswith("#")
    assert entry.cls is None or (issubclass(entry.cls, Base) and entry.cls.kind == entry.name)
    prior, domain = Prior(np.arange(11.0), np.arange(1, 12)), Domain.integers(0, 10)
    made = entry.make(Request(domain, 1, "squared", prior, 1000))
    assert made.exact == entry.exact == isinstance(made, FiniteMechanism)
    assert made.epsilon == 1


def test_mechanisms_are_frozen():
    for name in ("rr-on-bins", "bias-variance", "discrete-laplace", "laplace", "staircase"):
        made = MECHANISMS[name].make(
            Request(Domain.integers(0, 10), 1, "squared", Prior(np.arange(11.0), np.ones(11)), 1000)
        )
        with pytest.raises(AttributeError):
            made.epsilon_exact = 3
        with pytest.raises(ValueError, match="read-only"):
            made.outputs[0] = 3
        if isinstance(made, FiniteMechanism):
            with pytest.raises(TypeError):
                made.parameters[0] = ("tau", 3)


def test_what_is_sampled_cannot_be_changed_after_the_proof():
    made = MECHANISMS["rr-on-bins"].make(
        Request(Domain.integers(0, 10), 2, "squared", Prior(np.arange(11.0), np.ones(11)))
    )
    for array in (made.outputs, made.encoder.thresholds):
        with pytest.raises(ValueError, match="WRITEABLE"):
            array.flags.writeable = True


@pytest.mark.parametrize("cheat", ["prior", "labels"])
def test_an_entry_that_spends_more_than_it_is_given_is_refused(cheat, monkeypatch):
    honest = MECHANISMS["rr-on-bins"]
    changes = {
        "prior": {"fit_prior": lambda counts, scale, request: honest.fit_prior(counts, scale / 100, request)},
        "labels": {"make": lambda r: honest.make(replace(r, epsilon=9))},
    }
    monkeypatch.setitem(MECHANISMS._entries, "cheat", replace(honest, name="cheat", **changes[cheat]))
    with pytest.raises(PrivacyRefused, match="epsilon"):
        LabelRandomizer(1, Domain.integers(0, 10), mechanism="cheat").randomize(np.arange(11).repeat(50))


def test_only_mechanisms_that_may_be_released_are_suggested():
    with pytest.raises(InvalidInput, match="Did you mean 'discrete-laplace'"):
        LabelRandomizer(1, (0, 10), mechanism="laplase")
