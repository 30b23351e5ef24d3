"""What Spark's event log says of a job, without times: to compare jobs that differ in their labels."""

from __future__ import annotations

import json
import re
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

TIMER = re.compile(r"time|duration|gc", re.IGNORECASE)
EXCUSED = {
    "internal.metrics.resultSize": "it counts the timers that are not zero too; what we return is tested on its own",
    "internal.metrics.output.bytesWritten": "the parts hold private labels, and a fingerprint under a key",
    "written output": "the same",
}
NOTE_BYTES = 24
"""Three words about the input are shuffled too. They look random, so they may compress by some bytes."""


@contextmanager
def logged(spark):
    """A list that holds the events of the block once it has ended."""
    context, events = spark.sparkContext, []
    logs = Path(context.getConf().get("spark.eventLog.dir").removeprefix("file://"))
    log, bus = logs / f"{context.applicationId}.inprogress", context._jsc.sc().listenerBus()
    bus.waitUntilEmpty()
    start = log.stat().st_size
    yield events
    bus.waitUntilEmpty()
    with log.open("rb") as lines:
        lines.seek(start)
        events += [json.loads(line) for line in lines]


def shown(events, folder):
    """Channels of an event log and what they show, without times and without the numbers that Spark gives to things.

    The session is shared, and a task that an earlier test had killed may end now: only stages submitted in these events count.
    """
    seen, numbers = {}, Counter()
    stages = {event["Stage Info"]["Stage ID"] for event in events if event["Event"] == "SparkListenerStageSubmitted"}
    first = min(stages)
    names = {
        metric["accumulatorId"]: metric["name"] for event in events for metric in _metrics(event.get("sparkPlanInfo"))
    }
    for event in events:
        kind = event["Event"].rsplit(".")[-1]
        if kind == "SparkListenerTaskEnd" and event["Stage ID"] in stages:
            assert event["Task End Reason"]["Reason"] == "Success"
            for metric in event["Task Info"]["Accumulables"]:
                seen["task", event["Stage ID"] - first, event["Task Info"]["Index"], metric["Name"]] = metric["Update"]
        elif kind == "SparkListenerDriverAccumUpdates":
            for number, value in event["accumUpdates"]:
                numbers[names[number]] += 1
                seen["driver", numbers[names[number]], names[number]] = value
        elif "physicalPlanDescription" in event:
            text = event["physicalPlanDescription"].replace(str(folder), "")
            numbers[kind] += 1
            seen["plan", numbers[kind], kind] = re.sub(r"#\d+L?|plan_id=\d+", "", text)
    return {
        channel: value
        for channel, value in seen.items()
        if not TIMER.search(channel[-1]) and channel[-1] not in EXCUSED
    }


def _metrics(plan):
    if plan:
        yield from plan["metrics"]
        for child in plan["children"]:
            yield from _metrics(child)


def differences(one, other):
    """Channels that show different things."""
    return {
        channel: (one.get(channel), other.get(channel))
        for channel in one.keys() | other.keys()
        if one.get(channel) != other.get(channel) and not _by_notes(channel[-1], one.get(channel), other.get(channel))
    }


def _by_notes(name, one, other):
    return (
        bool(re.search("bytes", name, re.IGNORECASE))
        and None not in (one, other)
        and abs(int(one) - int(other)) <= NOTE_BYTES
    )
