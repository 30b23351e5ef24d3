"""What the shell offers after Tab, as bash asks for it."""

from __future__ import annotations

from typer.testing import CliRunner

from labeldp.cli import app
from labeldp.learn.learners import learners
from labeldp.losses import loss_examples
from labeldp.mechanisms import MECHANISMS


def offered(typed, shell="bash"):
    """The words that the shell would show after this, or all of typer's answer to another shell than bash."""
    request = {
        "_LABELDP_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": f"labeldp {typed}",
        "COMP_CWORD": str(len(f"{typed}|".split())),
        "_TYPER_COMPLETE_ARGS": f"labeldp {typed}",
    }
    answer = CliRunner(env=request).invoke(app, prog_name="labeldp")
    assert answer.exit_code == 0
    return answer.stdout.split() if shell == "bash" else answer.stdout


def test_purposes_and_mechanisms_that_can_be_released_are_offered():
    exact = [entry.name for entry in MECHANISMS if entry.exact]
    assert set(offered("privatize --for ")) == {"labels", "training"}
    assert offered("privatize --mechanism ") == exact
    assert offered("privatize --mechanism=rr") == [name for name in exact if name.startswith("rr")]


def test_models_are_offered_with_their_help():
    assert offered("train --model ") == learners().names
    assert "labeldp[torch]" in offered("train --model net", "zsh")


def test_losses_and_lists_of_mechanisms_are_offered():
    assert offered("train --model network --loss ") == list(loss_examples())
    assert offered("compare --mechanisms auto,rr-on") == ["auto,rr-on-bins"]
    assert offered("privatize --loss sq") == [name for name in loss_examples() if name.startswith("sq")]
