"""Files that users give to the page: what they tell, and what is said about those that tell nothing."""

from __future__ import annotations

import json

import numpy as np
import pytest

from labeldp import Domain, InvalidInput, LabelRandomizer, LabelSource, Prior, privatize
from labeldp.explore.exchange import MEGABYTES, read_path, read_upload
from labeldp.mechanisms import DiscreteLaplace, Laplace, RROnBins

CSV = b"value,mass\n0,1\n10,2\n50,1\n"
DESIGNED = RROnBins.optimal(Prior([0, 10, 50], [1, 2, 1]), 1, domain=Domain.integers(0, 50))


def test_a_distribution_brings_its_range():
    known = read_upload("prior.csv", CSV)
    assert known.prior == Prior([0, 10, 50], [1, 2, 1])
    assert known.domain.whole
    assert (known.domain.lower, known.domain.upper) == (0, 50)
    assert known.public
    assert read_upload("p.csv", b"value,mass\n0.5,1\n2,1\n").domain == Domain(0.5, 2)
    assert not read_upload("p.csv", b"value,mass,epsilon\n0,1,0.1\n2,1,0.1\n").public


def test_a_mechanism_brings_itself_with_bounds_and_prior():
    known = read_upload("mechanism.json", DESIGNED.to_json().encode())
    assert known.mechanism == DESIGNED
    assert known.prior == DESIGNED.prior
    assert known.domain == DESIGNED.domain
    assert known.epsilon == 1


def test_a_mechanism_without_a_distribution_is_shown_under_a_uniform_one():
    known = read_upload("mechanism.json", DiscreteLaplace(Domain.integers(0, 9), 1).to_json().encode())
    assert known.uniform
    assert np.allclose(known.prior.masses, 0.1)


def test_a_message_brings_its_records_and_what_it_cost(tmp_path):
    (tmp_path / "labels.csv").write_text("id,y\n" + "".join(f"{i},{i % 50}\n" for i in range(3000)))
    source = LabelSource(tmp_path / "labels.csv", "y", "id")
    privatize(source, LabelRandomizer(0.5, Domain.integers(0, 50)), tmp_path / "message")
    known = read_path(tmp_path / "message")
    assert (known.records, known.epsilon, known.public) == (3000, 0.5, False)
    again = read_upload("mechanism.json", (tmp_path / "message" / "mechanism.json").read_bytes())
    assert again.mechanism == known.mechanism
    assert again.records == 3000  # the noisy counts of the prior say so
    assert read_path(tmp_path / "message" / "mechanism.json").epsilon == 0.5


def damaged():
    record = json.loads(DESIGNED.to_json())
    record["outputs"][0] += 1
    return json.dumps(record).encode()


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("p.csv", b"", "p.csv is empty"),
        ("p.csv", b"\x89PNG\r\n\x1a\n\x00\xff", "not UTF-8"),
        ("p.csv", b"<html><body>Not a table</body></html>", "columns value and mass"),
        ("p.csv", b"value,mass\n", "at least one value"),
        ("p.csv", b"value,mass\n3,1\n", "at least two values"),
        ("p.csv", b"value,mass\n0,1\n1,-1\n", "must not be negative"),
        ("p.csv", b"value,mass\n0,1\n1,nan\n", "p.csv, line 3: a mass must be a finite number"),
        ("p.csv", b"value,mass\n0,0\n1,0\n", "must not all be zero"),
        ("p.csv", b"value,mass\n0,1\n0,1\n", "must differ"),
        ("p.csv", b"value,mass\n0,1\n1e300,1\n", "in size"),
        ("p.csv", b"value,mass\n" + b"1,1\n" * 200_000, "has 200,000 values"),
        ("p.csv", b"value,mass\r" + b"1,1\r" * 200_000, "has 200,000 values"),
        ("p.csv", b"value;mass\n0;1\n1;1\n", "separates its columns by semicolons"),
        ("p.csv", b"\xef\xbb\xbfvalue\tmass\n0\t1\n", "separates its columns by tabs"),
        ("p.csv", b"x" * ((MEGABYTES << 20) + 1), f"more than {MEGABYTES} MB"),
        ("m.json", b"{}", "does not hold a labeldp mechanism"),
        ("m.json", b"[" * 100_000, "nested deeper"),
        ("m.json", b"\xff\xfe", "not UTF-8"),
        ("m.json", b"\xef\xbb\xbf{}", "byte order mark"),
        ("m.json", b'{"format": NaN}', "not valid JSON"),
        ("m.json", CSV, "not valid JSON"),
        ("m.json", damaged(), "edited or damaged"),
        ("m.json", Laplace(epsilon=1, domain=(0, 9)).to_json().encode(), "for comparison only"),
    ],
)
def test_wrong_files_are_explained(name, content, why):
    with pytest.raises(InvalidInput, match=why) as refused:
        read_upload(name, content)
    assert name in str(refused.value)
    assert "/tmp" not in str(refused.value)
