"""What all tests share: seeded draws, default signal handlers, groups of tests, and a report of what was left out.

`make test` runs the tests without a group. Each group has a marker, so that `pytest -m spark` runs one; pyproject.toml
describes them. All tests that need Spark share one session in one process, since each session starts a Java machine.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections import Counter
from contextlib import nullcontext

# One thread per test process: there is one process per core, and spinning threads would stall them.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
# What users may have set and what would change output.
for variable in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "TERM", "PYTHONWARNINGS", "SPARK_HOME"):
    os.environ.pop(variable, None)
os.environ.update(LC_ALL="C.UTF-8", TZ="UTC")
# A shell that starts a run in the background ignores these, and children would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)

import pytest  # noqa: E402 - after the environment is set
from hypothesis import HealthCheck, settings  # noqa: E402

from seeded_words import seed_of, seeded_draws  # noqa: E402

GROUPS = ("soak", "spark", "browser", "site", "pages", "slow")
# The first call of a kernel compiles it, and a busy machine may take long over anything.
ALWAYS = {"deadline": None, "derandomize": True, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("short", max_examples=20, stateful_step_count=15, **ALWAYS)
settings.register_profile("long", max_examples=200, **ALWAYS)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "short"))


def pytest_collection_modifyitems(items):
    for item in items:
        if {"java", "spark"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.spark)
            # PySpark 4.1 leaves sockets to the garbage collector
            sockets = r"ignore:Exception ignored in. <socket\.socket:pytest.PytestUnraisableExceptionWarning"
            item.add_marker(pytest.mark.filterwarnings(sockets))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Give the tests of a file to one process, and those about Spark of all files.

    The marker `xdist_group` could say so, but pytest-xdist 3.8 does not see it with pytest 9.2 (pytest-xdist issue 1386).
    """
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class OneSpark(LoadFileScheduling):
        def _split_scope(self, nodeid):
            return "spark" if "spark" in nodeid else super()._split_scope(nodeid)

    return OneSpark(config, log)


def seeded_by(name, node):
    """Seed all draws by a name, unless the test or module has the marker `os_randomness`."""
    return nullcontext() if node.get_closest_marker("os_randomness") else seeded_draws(seed_of(name))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    """Seed what a module draws while it is imported."""
    with seeded_draws(seed_of(collector.nodeid)):
        return (yield)


@pytest.fixture(autouse=True)
def seeded(request):
    with seeded_by(request.node.nodeid, request.node):
        yield


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef, request):
    """Seed fixtures of modules and sessions by their own names: which test needs one first depends on the load."""
    if fixturedef.scope == "function":
        return (yield)
    number = getattr(request, "param_index", 0)
    name = f"{fixturedef.baseid}::{fixturedef.argname}[{number}]"
    with seeded_by(name, request.node):
        return (yield)


@pytest.fixture(scope="session")
def java():
    pytest.importorskip("pyspark", reason="Spark's tests need the extra spark: pip install 'labeldp[spark]'")
    if shutil.which("java") is None and not os.environ.get("JAVA_HOME"):
        pytest.skip("Spark's tests need Java 17: install openjdk-17-jre-headless")


@pytest.fixture(scope="session")
def spark(java, tmp_path_factory):
    from spark_session import local_session

    folder = tmp_path_factory.mktemp("spark")
    (folder / "events").mkdir()
    log = {"enabled": "true", "dir": (folder / "events").as_uri(), "compress": "false", "rolling.enabled": "false"}
    settings = {f"spark.eventLog.{name}": value for name, value in log.items()}
    session = local_session(folder, "local[2,2]", **settings)  # a task that fails is tried once more
    yield session
    session.stop()


# The end of a run tells how many tests were left out, by group. With xdist, only the workers see which.
left_out: Counter[str] = Counter()


def pytest_deselected(items):
    left_out.update(next((group for group in GROUPS if item.get_closest_marker(group)), "others") for item in items)


def pytest_sessionfinish(session):
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = dict(left_out)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error):
    left_out.update(Counter(node.workeroutput["left_out"]) - left_out if not error else {})  # every worker has them all


def pytest_terminal_summary(terminalreporter):
    for reason, count in Counter(report.longrepr[2] for report in terminalreporter.getreports("skipped")).items():
        terminalreporter.write_line(f"skipped: {count} ({reason.removeprefix('Skipped: ')})")
    for group, count in sorted(left_out.items()):
        how = f"pytest -m {group}" if group in GROUPS else "see the selection on the command line"
        terminalreporter.write_line(f"left out: {count} {group} ({how})")
