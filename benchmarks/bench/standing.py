"""Where a peer is ahead of us, and the sentence that must say so and why.

`sentences.toml` has the sentences. Each names a part, a pattern for the contests and a pattern for the peers that it speaks of.
A peer that is ahead anywhere without a sentence is an error: the page cannot be written. A sentence is only shown if a
peer is ahead in the run at hand.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from bench.results import Contest, Result

LEVEL = 1.01
"""Figures that differ by less than 1 % are level."""
SENTENCES = Path(__file__).with_name("sentences.toml")


class MissingSentenceError(LookupError):
    """A peer is ahead, and no sentence says so."""


@dataclass(frozen=True)
class Lead:
    """A peer that is ahead of our best figure, by this factor."""

    part: str
    contest: str
    peer: str
    factor: float
    ours: float = float("nan")


@dataclass(frozen=True)
class Sentence:
    """What is said of the leads that fit its patterns."""

    part: str
    contest: str
    peer: str
    text: str

    def fits(self, lead: Lead) -> bool:
        """Whether it speaks of this lead."""
        return (
            self.part == lead.part
            and any(fnmatchcase(lead.contest, pattern.strip()) for pattern in self.contest.split("|"))
            and any(fnmatchcase(lead.peer, pattern.strip()) for pattern in self.peer.split("|"))
        )


def leads(result: Result) -> list[Lead]:
    """Every peer that is ahead in a contest."""
    return [lead for contest in result.contests for lead in _leads(result.part, contest)]


def lead_over_peers(contest: Contest) -> float | None:
    """Our best figure beside the best of the peers: above 1 if we are ahead. None without figures of both."""
    if not (contest.ours and contest.peers):
        return None
    if contest.better == "low":
        return min(contest.peers.values()) / min(contest.ours.values())
    return max(contest.ours.values()) / max(contest.peers.values())


def _leads(part: str, contest: Contest) -> list[Lead]:
    if not contest.ours:
        return [Lead(part, contest.key, peer, float("inf")) for peer in contest.peers]
    best = min(contest.ours.values()) if contest.better == "low" else max(contest.ours.values())
    factors = {
        peer: best / figure if contest.better == "low" else figure / best for peer, figure in contest.peers.items()
    }
    return [Lead(part, contest.key, peer, factor, best) for peer, factor in factors.items() if factor > LEVEL]


def read_sentences(path: Path = SENTENCES) -> list[Sentence]:
    """All sentences of the file."""
    return [Sentence(**entry) for entry in tomllib.loads(path.read_text(encoding="utf-8"))["sentence"]]


def paragraphs(result: Result, sentences: list[Sentence]) -> list[str]:
    """A paragraph for each sentence that is needed, with the figures of this run."""
    found = leads(result)
    silent = [lead for lead in found if not any(sentence.fits(lead) for sentence in sentences)]
    if silent:
        lines = [f"  {lead.part}: {lead.peer} by {lead.factor:.2f} in {lead.contest}" for lead in silent]
        raise MissingSentenceError(
            "peers are ahead and no sentence in benchmarks/bench/sentences.toml says so and why:\n" + "\n".join(lines)
        )
    said = []
    for sentence in sentences:
        mine = [lead for lead in found if sentence.fits(lead)]
        if mine:
            said.append(sentence.text.strip().format(**_figures(mine, result)))
    if not said:
        said.append("No peer is ahead of us in any row of this part.")
    return said


def _figures(mine: list[Lead], result: Result) -> dict[str, object]:
    factors = sorted(lead.factor for lead in mine)
    span = (
        f"{factors[0]:.2f}" if f"{factors[0]:.2f}" == f"{factors[-1]:.2f}" else f"{factors[0]:.2f} to {factors[-1]:.2f}"
    )
    contests = list(dict.fromkeys(lead.contest for lead in mine))
    where = "; ".join(contests) if len(contests) <= 6 else f"{len(contests)} of {len(result.contests)} rows"
    return {
        "factor": span,
        "most": f"{factors[-1]:.2f}",
        "rows": len(contests),
        "all": len(result.contests),
        "where": where,
        "ours": f"{max(lead.ours for lead in mine):.2g}",
        "peers": "; ".join(dict.fromkeys(lead.peer for lead in mine)),
    }
