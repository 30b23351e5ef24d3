"""The page by Streamlit's own test runner, without a browser: what controls do, and what is said where something cannot work."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from labeldp import Domain, Prior
from labeldp.evaluate import Risk
from labeldp.explore.answers import RECEIVED, Question, curve, designed, headline
from labeldp.explore.exchange import Names, command
from labeldp.formatting import percent
from labeldp.mechanisms import RROnBins

pytest.importorskip("streamlit", reason="the page's tests need the extra explore: pip install 'labeldp[explore]'")

from labeldp.explore.sidebar import as_text

pytestmark = pytest.mark.browser

FIRST = Question()


def opened(preset=None):
    from streamlit.testing.v1 import AppTest

    script = f"from labeldp.explore.page import show\nshow({preset!r})"
    return AppTest.from_string(script, default_timeout=300).run()


def text(page):
    """What stands on the right, without the escapes that keep it from being Markdown."""
    parts = [*page.main.markdown, *page.main.caption, *page.main.error, *page.main.warning, *page.main.info]
    return "\n".join(re.sub(r"\\(.)", r"\1", part.value) for part in parts)


def section(page, name):
    page.session_state["section"] = name
    return page.run()


def control(group, label):
    return next(each for each in group if each.label == label)


@pytest.fixture(scope="module")
def designed_file(tmp_path_factory):
    prior = Prior([0, 10, 20, 50], [4, 3, 2, 1])
    path = tmp_path_factory.mktemp("received") / "mechanism.json"
    path.write_text(RROnBins.optimal(prior, 0.8, domain=Domain.integers(0, 50)).to_json(), encoding="utf-8")
    return path


def test_the_first_screen_answers_a_question():
    page = opened()
    assert not page.exception
    assert headline(FIRST).sentence in text(page)
    assert page.metric[0].value == f"{headline(FIRST).trained.r2:.2f}"


def test_every_section_is_shown_and_a_second_click_keeps_it():
    page = opened()
    for name, word in {
        "Reported values": "different values",
        "One label": "A label of 78 is reported as",
        "All labels": "Each column is a true label",
        "Compare": "choose by the error of a model",
        "Private histogram": "Simulated: 50,000 invented labels",
        "Command and files": "On the command line",
    }.items():
        section(page, name)
        assert not page.exception
        assert not page.error
        assert word in text(page)
    section(page, None)
    assert page.session_state["section"] == "Command and files"  # and stays highlighted
    assert "On the command line" in text(page)


def test_controls_reach_the_command():
    page = section(opened(), "Command and files")
    page.select_slider(key="epsilon").set_value(0.5)
    control(page.toggle, "This distribution is public knowledge").set_value(True)
    control(page.toggle, "Labels are whole numbers").set_value(True)
    control(page.selectbox, "Mechanism").set_value("rr-on-bins")
    control(page.selectbox, "Loss").set_value("pinball")
    page.run()
    control(page.number_input, "Level of the quantile").set_value(0.9)
    control(page.text_input, "File of labels").set_value("my file.csv")
    page.run()
    asked = replace(FIRST, epsilon=0.5, public=True, whole=True, mechanism="rr-on-bins", loss="pinball(0.9)")
    assert page.code[0].value == command(asked, replace(Names(), source="my file.csv"))
    assert "--loss=pinball(0.9)" in page.code[0].value.replace("'", "")


def test_what_does_not_go_together_is_said_and_the_controls_stay():
    page = opened()
    control(page.selectbox, "Loss").set_value("gamma")
    page.run()
    assert "gamma loss is for labels" in text(page)
    control(page.selectbox, "Loss").set_value("squared")
    page.run()
    assert headline(FIRST).sentence in text(page)


def test_a_section_that_cannot_be_shown_does_not_hide_the_others():
    page = opened()
    control(page.toggle, "Choose the number of cells").set_value(True)
    control(page.selectbox, "Mechanism").set_value("discrete-staircase")
    page.run()
    control(page.number_input, "Cells from lower to upper").set_value(10_000)
    page.run()
    assert "choose at most" in text(page)
    assert "Predictions are for models of the default size" not in text(section(page, "All labels"))
    assert "choose by the error of a model" in text(section(page, "Compare"))


def test_the_risk_of_the_slider_and_the_recommended_epsilon_are_apart():
    page = opened()
    best = curve(FIRST).recommended
    assert best.epsilon != FIRST.epsilon
    risk, advice = text(page).split("A recommendation, independent of the slider")
    assert f"What ε = {FIRST.epsilon:g} risks at worst" in risk
    assert "Take ε" not in risk
    assert f"With ε = {best.epsilon:g}, 50 % becomes at most {percent(best.risk.most(0.5))}." in advice
    assert percent(Risk(FIRST.epsilon).most(0.5)) not in advice.partition("50 % becomes")[2]


def test_it_is_said_that_advice_is_about_auto_where_another_mechanism_is_chosen():
    page = opened()
    assert "With auto: " not in text(page)
    control(page.selectbox, "Mechanism").set_value("discrete-laplace")
    page.run()
    assert f"With auto: {curve(FIRST).recommendation}" in text(page)
    assert "The prediction with auto:" in text(section(page, "Command and files"))


def test_bounds_in_the_wrong_order_are_pointed_out():
    page = opened()
    control(page.number_input, "Upper bound").set_value(-3.0)
    page.run()
    assert "must be below" in page.sidebar.error[0].value
    assert headline(FIRST).sentence in text(page)


def test_a_received_mechanism_is_shown_as_it_is(designed_file):
    page = opened(str(designed_file))
    received = RROnBins.from_json(designed_file.read_text(encoding="utf-8"))
    asked = Question(
        lower=0, upper=50, whole=True, distribution=received.prior, epsilon=0.8, mechanism=RECEIVED, received=received
    )
    assert not page.exception
    assert headline(asked).sentence in text(page)
    assert designed(asked).mechanism == received
    assert "not made again by a command" in text(section(page, "Command and files"))
    assert "no prior is drawn" in text(section(page, "Private histogram"))


def test_a_shape_can_be_chosen_again_after_a_file(designed_file):
    page = opened(str(designed_file))
    control(page.radio, "The distribution of the labels comes from").set_value("A shape")
    page.run()
    assert headline(FIRST).sentence in text(page)


def test_the_draw_of_the_simulated_prior_changes_on_demand():
    page = section(opened(), "Private histogram")
    assert "Draw 1." in text(page)
    control(page.button, "Draw again").click()
    page.run()
    assert "Draw 2." in text(page)


@pytest.mark.parametrize(("lower", "upper"), [(0.0, 1e90), (-5.0, -1.0), (0.0, 1e-6), (1e15, 1e15 + 1)])
def test_any_bounds_give_an_answer_or_a_reason(lower, upper):
    page = opened()
    control(page.number_input, "Upper bound").set_value(upper)
    control(page.number_input, "Lower bound").set_value(lower)
    page.run()
    assert not page.exception
    assert "is predicted to reach" in text(page) or page.main.error


def test_texts_from_files_are_no_markdown():
    assert as_text("![x](http://a/b.png) $x$ <b> :red[y]") == (r"\!\[x\]\(http\:\/\/a\/b\.png\) \$x\$ \<b\> \:red\[y\]")
