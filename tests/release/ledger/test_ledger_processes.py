"""Whatever processes race, block or die, the ledger never overspends and forgets no charge."""

from __future__ import annotations

import json
import os
import random
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from fractions import Fraction

import pytest

from labeldp.errors import InsufficientBudget, InvalidInput
from labeldp.release.ledger import Ledger, key_fingerprint
from labeldp.release.ledger_file import LedgerLocked

SAME = {"key_check": key_fingerprint(bytes(range(32))), "input_hmac": "ab" * 32}


def start(program, *arguments):
    return subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_ledger_locked_for_too_long_is_an_error_that_says_what_to_do(ledger):
    waiting = Ledger(ledger.path, timeout=0.05)
    with closing(sqlite3.connect(ledger.path, isolation_level=None)) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        for act in (lambda: waiting.reserve("sales", 1), waiting.datasets, lambda: Ledger(ledger.path, timeout=0.05)):
            with pytest.raises(LedgerLocked, match=r"locked.*run again") as refusal:
                act()
            assert refusal.value.exit_code == 3
    assert waiting.history() == []


def test_a_lock_that_comes_free_is_waited_for(ledger):
    with closing(sqlite3.connect(ledger.path, isolation_level=None, check_same_thread=False)) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        release = threading.Timer(0.3, holder.rollback)
        release.start()
        assert ledger.reserve("sales", 1).epsilon == 1
        release.join()


def test_threads_sharing_one_ledger_never_overspend(ledger):
    outcomes = []

    def spend():
        for _ in range(5):
            try:
                outcomes.append(ledger.reserve("sales", "0.2").epsilon)
            except InsufficientBudget:
                outcomes.append(Fraction(0))

    threads = [threading.Thread(target=spend) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) == 40
    assert sum(outcomes) == 3
    assert ledger.remaining("sales") == 0


RACE = """
import json, sys
from labeldp.errors import InsufficientBudget
from labeldp.release.ledger import Ledger

path, epsilon = sys.argv[1:]
ledger = Ledger(path)
print("ready", flush=True)
sys.stdin.readline()
charged = []
while True:
    try:
        charged.append(ledger.reserve("sales", epsilon).id)
    except InsufficientBudget as refusal:
        print(json.dumps({"charged": charged, "remaining": str(refusal.remaining), "text": str(refusal)}))
        break
"""


def test_eight_processes_race_and_never_overspend(ledger):
    epsilons = [Fraction(7 + number, 100) for number in range(8)]
    racers = [start(RACE, ledger.path, epsilon) for epsilon in epsilons]
    for racer in racers:
        assert racer.stdout.readline() == "ready\n", racer.stderr.read()
    for racer in racers:
        racer.stdin.write("go\n")
        racer.stdin.flush()
    charged = {}
    for racer, epsilon in zip(racers, epsilons, strict=True):
        output, errors = racer.communicate(timeout=120)  # a deadlock would end here
        assert racer.returncode == 0, errors
        outcome = json.loads(output)
        charged.update(dict.fromkeys(outcome["charged"], epsilon))
        remaining = Fraction(outcome["remaining"])
        assert 0 <= remaining < epsilon
        assert f"{float(remaining):.6g} left" in outcome["text"]
    assert {release.id: release.epsilon for release in ledger.history()} == charged
    assert ledger.remaining("sales") == 3 - sum(charged.values())
    assert 0 <= ledger.remaining("sales") < min(epsilons)


CREATE = """
import sys
from labeldp.release.ledger import Ledger

path, name = sys.argv[1:]
print("ready", flush=True)
sys.stdin.readline()
Ledger.create(path, exist_ok=True).add_dataset(name, budget=1)
"""


def test_processes_that_create_one_ledger_together_all_find_their_dataset(tmp_path):
    path = tmp_path / "ledger.db"
    names = [f"data {number}" for number in range(6)]
    creators = [start(CREATE, path, name) for name in names]
    for creator in creators:
        creator.stdout.readline()
    for creator in creators:
        creator.stdin.write("go\n")
        creator.stdin.flush()
    for creator in creators:
        _, errors = creator.communicate(timeout=120)
        assert creator.returncode == 0, errors
    assert sorted(dataset.name for dataset in Ledger(path).datasets()) == names


RELEASE = """
import sys, time
from labeldp.mechanisms import RROnBins
from labeldp.release.ledger import Ledger, key_fingerprint

ledger = Ledger(sys.argv[1])
release = ledger.reserve("sales", 1, key_check=key_fingerprint(bytes(range(32))), input_hmac="ab" * 32)
if sys.argv[2] == "fixed":
    mechanism = RROnBins([10, 100], epsilon=1)
    ledger.fix(release.id, mechanism)
print(release.id, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("moment", ["reserved", "fixed"])
def test_a_process_killed_before_its_commit_leaves_a_charge_that_its_key_can_resume(ledger, moment):
    process = start(RELEASE, ledger.path, moment)
    release_id = process.stdout.readline().strip()
    process.kill()
    process.communicate()
    (release,) = ledger.history()
    assert (release.id, release.state, release.fixed) == (release_id, "reserved", moment == "fixed")
    assert ledger.remaining("sales") == 2
    assert ledger.find_resumable("sales", 1, **SAME) == release
    assert ledger.find_resumable("sales", 1, **{**SAME, "input_hmac": "00" * 32}) is None


SPEND = """
import sys
from labeldp.mechanisms import RROnBins
from labeldp.release.ledger import Ledger

ledger = Ledger(sys.argv[1])
mechanism = RROnBins(range(1000), epsilon="0.0001")  # several pages of text
while True:
    release = ledger.reserve("sales", "0.0001")
    ledger.fix(release.id, mechanism)
    print(release.id, flush=True)
"""


def kill_while_spending(ledger, raw, kills):
    seen = set()
    for _ in range(kills):
        process = start(SPEND, ledger.path)
        seen.add(process.stdout.readline().strip())
        time.sleep(random.uniform(0, 0.05))
        process.kill()
        output, _ = process.communicate()
        seen.update(output.split())
        charged = {release.id: release.fixed for release in ledger.history()}
        assert all(charged[release_id] for release_id in seen)
        assert len(charged) - len(seen) <= kills  # at most the one in flight at each kill is charged but unseen
        assert raw("PRAGMA integrity_check") == [("ok",)]
    assert ledger.remaining("sales") == 3 - Fraction(len(ledger.history()), 10_000)
    assert ledger.verify().releases == len(ledger.history())


@pytest.mark.slow
def test_whatever_a_killed_process_had_reserved_is_charged(ledger, raw):
    kill_while_spending(ledger, raw, 10)


@pytest.mark.slow
def test_whatever_a_process_killed_forty_times_had_reserved_is_charged(ledger, raw):
    kill_while_spending(ledger, raw, 40)


FULL = """
import resource, sys
from labeldp.errors import LabelDPError
from labeldp.release.ledger import Ledger

ledger = Ledger(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    ledger.reserve("sales", 1)
except LabelDPError as error:
    print(error.exit_code, error)
"""


def test_a_disk_that_takes_no_more_charges_nothing_and_says_so(ledger):
    pytest.importorskip("resource")
    output, errors = start(FULL, ledger.path).communicate()
    assert output.startswith("1 ")
    assert "free space" in output, errors
    assert ledger.remaining("sales") == 3


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_a_ledger_that_may_only_be_read_can_be_shown_but_not_charged(ledger):
    ledger.path.chmod(0o400)
    assert ledger.remaining("sales") == 3
    with pytest.raises(InvalidInput, match="writable"):
        ledger.reserve("sales", 1)
