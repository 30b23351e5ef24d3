"""kill -9 at any moment: no partial message, no free draw, and resuming gives what an undisturbed run gives."""

from __future__ import annotations

import random

import pytest
from crash_scene import EPSILON, Scene

from labeldp.release.ledger import Ledger


def kill_and_resume(victim, scene, rng, length, *, public_prior):
    """Kills a release once or several times, looks at what it left, and lets it end."""
    kills = 0
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        code, _ = victim.run(scene, public_prior=public_prior, kill_after=rng.uniform(0, 1.05 * length))
        assert code in {0, -9}, victim.take_errors()
        kills += code == -9
        scene.check_nothing_partial()
    code, _ = victim.run(scene, public_prior=public_prior)
    assert code == 0, victim.take_errors()  # the budget carries one release: a second charge would have been refused
    assert scene.message.exists()
    scene.check_nothing_partial()
    assert scene.spent == EPSILON
    assert [release.state for release in Ledger(scene.folder / "ledger.db").history()] == ["committed"]
    assert scene.leftovers() == []
    return kills


def released_scene(victim, folder, *, signed=False):
    scene = Scene.make(folder / "released", 300)
    scene = scene.sign() if signed else scene
    assert victim.run(scene)[0] == 0, victim.take_errors()
    return scene


def undisturbed_seconds(victim, folder, rows):
    return min(victim.run(Scene.make(folder / f"undisturbed{i}", rows))[1] for i in range(3))


@pytest.mark.slow
@pytest.mark.parametrize("trial", range(4))
def test_a_release_killed_at_a_random_moment_is_resumed_as_the_same_release(victim, folder, trial):
    length = undisturbed_seconds(victim, folder, 20_000)
    scene = Scene.make(folder / "scene", 20_000)
    kill_and_resume(victim, scene, random.Random(trial), length, public_prior=trial % 2 == 1)


@pytest.mark.soak
def test_200_releases_killed_at_random_moments_are_resumed_as_the_same_releases(victim, folder):
    rows = 300_000
    rng = random.Random(0)
    length = undisturbed_seconds(victim, folder, rows)
    killed = 0
    for trial in range(400):
        scene = Scene.make(folder / f"scene{trial}", rows)
        killed += kill_and_resume(victim, scene, rng, length, public_prior=trial % 4 == 3) > 0
        for file in scene.folder.rglob("*.parquet"):
            file.unlink()
        if killed == 200:
            break
    print(f"{trial + 1} releases of {length:.2f} s, {killed} of them killed")
    assert killed == 200


def test_a_release_killed_at_each_of_its_system_events_is_resumed_as_the_same_release(victim, folder):
    states = set()
    for event in range(1, 1000):
        scene = Scene.make(folder / f"scene{event}", 500)
        code, _ = victim.run(scene, event=event)
        if code == 0:
            break
        assert code == -9, victim.take_errors()
        scene.check_nothing_partial()
        history = Ledger(scene.folder / "ledger.db").history()
        states.add((history[0].state, history[0].fixed, scene.message.exists()) if history else None)
        assert victim.run(scene)[0] == 0, f"event {event}: {victim.take_errors()}"
        scene.check_nothing_partial()
        assert scene.message.exists()
        assert scene.spent == EPSILON
        assert scene.leftovers() == []
    assert event > 30
    assert states == {  # a kill was tried in every state that a release goes through
        None,
        ("reserved", False, False),
        ("reserved", True, False),
        ("reserved", True, True),
        ("committed", True, True),
    }


@pytest.mark.slow
@pytest.mark.parametrize("signed", [False, True])
def test_apply_killed_at_each_of_its_system_events_adds_the_batch_once(victim, folder, signed):
    batches = set()
    released = released_scene(victim, folder, signed=signed)
    for event in range(1, 1000):
        scene = released.copy(folder / f"scene{event}")
        code, _ = victim.run(scene, "apply", event=event)
        if code == 0:
            break
        assert code == -9, victim.take_errors()
        scene.check_nothing_partial()
        batches.add((len(scene.opened().files), scene.unlisted))
        assert victim.run(scene, "apply")[0] == 0, f"event {event}: {victim.take_errors()}"
        scene.check_codes()
        assert (len(scene.opened().files), scene.unlisted) == (2, 0)
        assert scene.recorded == 1
        assert scene.leftovers() == []
    assert event > 20
    assert batches == {(1, 0), (2, 1), (2, 0)}  # before the batch, before the manifest, before the key file


@pytest.mark.slow
def test_apply_killed_while_drawing_accepts_no_other_batch_in_its_place(victim, folder):
    """The killed batch may be in a copy of the message: an id of it with another label would be a second draw."""
    ended = set()
    released = released_scene(victim, folder)
    for event in range(1, 1000):
        scene = released.copy(folder / f"scene{event}")
        if victim.run(scene, "apply", event=event)[0] == 0:
            break
        held = set(zip(*scene.held(), strict=True))
        ids, labels = scene.read("later")
        scene.write("later", ids, 100 - labels)
        code, _ = victim.run(scene, "apply")
        if code == 1:
            assert "begun and not finished" in victim.take_errors()
        now = set(zip(*scene.held(), strict=True))
        assert now == held if code == 1 else now >= held
        ended.add((code, len(held) > 300))
    assert ended == {
        (0, False),
        (1, False),
        (1, True),
        (0, True),
    }  # before it began, in the middle, unnoted, after the end


@pytest.mark.slow
def test_runs_of_one_release_that_begin_together_charge_once_and_one_of_them_ends(victim, folder):
    rng = random.Random(1)
    length = undisturbed_seconds(victim, folder, 20_000)
    for trial in range(4):
        scene = Scene.make(folder / f"scene{trial}", 20_000)
        if trial % 2:
            victim.run_together(scene, "privatize", 3, kill_after=rng.uniform(0, length))
            scene.check_nothing_partial()
        codes = victim.run_together(scene, "privatize", 3)
        assert codes.count(0) >= 1, victim.take_errors()
        assert set(codes) <= {0, 1}
        scene.check_nothing_partial()
        assert scene.message.exists()
        assert scene.spent == EPSILON
        assert victim.run_together(scene, "apply", 3).count(0) >= 1, victim.take_errors()
        scene.check_codes()
        assert len(list(scene.message.rglob("*.parquet"))) == 2
        assert all("another labeldp run is using" in line for line in victim.take_errors().splitlines())
        assert scene.leftovers() == []
