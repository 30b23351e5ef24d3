from __future__ import annotations

import gzip
import sys
import warnings

import numpy as np
import pytest

from labeldp.errors import InvalidInput, MissingExtra
from labeldp.paper.data import load_census
from labeldp.paper.data.census import ARCHIVE_LAYOUT, CENSUS_VOCABULARIES, ipums_layout
from labeldp.paper.data.dataset import RARE

PEOPLE = [
    {"SEX": 1, "AGE": 34, "MARST": 1, "CHBORN": 0, "SCHOOL": 1, "EMPSTAT": 1, "OCC": 266, "IND": 16, "WKSWORK1": 52},
    {"SEX": 2, "AGE": 101, "MARST": 6, "CHBORN": 99, "SCHOOL": 2, "EMPSTAT": 3, "OCC": 999, "IND": 0, "WKSWORK1": 1},
    {"SEX": 2, "AGE": 9, "MARST": 6, "CHBORN": 0, "SCHOOL": 2, "EMPSTAT": 0, "OCC": 0, "IND": 0, "WKSWORK1": 0},
    {"SEX": 1, "AGE": 50, "MARST": 4, "CHBORN": 2, "SCHOOL": 9, "EMPSTAT": 1, "OCC": 1200, "IND": 7, "WKSWORK1": 26},
    {"SEX": 1, "AGE": 51, "MARST": 4, "CHBORN": 2, "SCHOOL": 1, "EMPSTAT": 1, "OCC": 12, "IND": 7, "WKSWORK1": 99},
]


def person(values, layout=ARCHIVE_LAYOUT):
    text = ["0"] * layout.width
    text[0] = layout.record or "2"
    for name, (first, last) in layout.fields.items():
        text[first - 1 : last] = f"{values[name]:0{last - first + 1}d}"
    return "".join(text)


def household():
    return "H" + "1" * 90


def archive(path, people=PEOPLE, end="\n"):
    lines = [line for one in people for line in (household(), person(one))]
    path.write_bytes((end.join(lines) + end).encode())
    return path


def assert_is_people(data):
    assert data.labels.tolist() == [52, 1, 26]
    assert data.features["AGE"].to_pylist() == [34, 101, 50]
    assert data.features["SEX"].to_pylist() == ["1", "2", "1"]
    assert data.features["CHBORN"].to_pylist() == ["0", "99", "2"]
    assert data.features["SCHOOL"].to_pylist() == ["1", "2", RARE]
    assert data.features["OCC"].to_pylist() == ["266", "999", RARE]
    assert data.features["IND"].to_pylist() == ["16", "0", "7"]
    for name, (first, number) in CENSUS_VOCABULARIES.items():
        items = data.features[name].combine_chunks().dictionary.to_pylist()
        assert items == [RARE, *(str(code) for code in range(first, first + number))]
    assert "1 with unknown weeks dropped" in data.description


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_archive_file_loads(tmp_path, end):
    assert_is_people(load_census(archive(tmp_path / "EXT1940USCB.dat", end=end)))


def test_blocks_of_any_size_give_the_same_people(tmp_path):
    path = archive(tmp_path / "EXT1940USCB.dat", PEOPLE * 7)
    for size in (300, 364, 365, 366, 1000, 1 << 20):
        blocks = list(ARCHIVE_LAYOUT.read(path, block_bytes=size))
        assert size > 1000 or len(blocks) > 5
        assert np.concatenate([lines for lines, _ in blocks]).tolist() == list(range(2, 72, 2))
        for name in ARCHIVE_LAYOUT.fields:
            values = np.concatenate([columns[name] for _, columns in blocks])
            assert values.tolist() == [one[name] for one in PEOPLE * 7]


def test_spaces_pad_numbers_and_empty_codes_become_one_item(tmp_path):
    text = person(PEOPLE[0])
    text = text[:141] + "  12" + "   " + text[148:]
    text = text[:148] + "    " + text[152:]
    (tmp_path / "EXT1940USCB.dat").write_text(text + "\n")
    data = load_census(tmp_path / "EXT1940USCB.dat")
    assert data.features["OCC"].to_pylist() == ["12"]
    assert data.features["IND"].to_pylist() == [RARE]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t[:150], r"line 4: the line should be 273 characters wide, not 150"),
        (lambda t: t + "0", r"line 4: .*not 274"),
        (lambda t: "X" + t[1:], r"line 4: column 1 should be P or H"),
        (lambda t: "", r"line 4: column 1 should be P or H"),
        (lambda t: t[:73] + "3x4" + t[76:], r"line 4: columns 74-76 \(AGE\) should hold a whole number"),
        (lambda t: t[:73] + "3 4" + t[76:], r"line 4: columns 74-76 \(AGE\) should hold a whole number"),
        (lambda t: t[:158] + "  " + t[160:], r"line 4: WKSWORK1 is empty"),
        (lambda t: t[:73] + "é" + t[75:], r"line 4: columns 74-76 \(AGE\) should hold a whole number"),
        (lambda t: t[:9] + "\x1f" + t[10:], r"line 4: 2 fields where there should be 1\. Expected the 1940"),
    ],
)
def test_a_damaged_archive_file_is_refused_with_the_line(tmp_path, change, words):
    path = tmp_path / "EXT1940USCB.dat"
    lines = [household(), person(PEOPLE[0]), household(), change(person(PEOPLE[1])), household()]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    with pytest.raises(InvalidInput, match=words):
        load_census(path)


def test_an_empty_archive_file_is_refused(tmp_path):
    (tmp_path / "EXT1940USCB.dat").touch()
    with pytest.raises(InvalidInput, match=r"EXT1940USCB.dat is empty; expected the 1940 census file"):
        load_census(tmp_path / "EXT1940USCB.dat")


def test_the_line_is_right_in_later_blocks(tmp_path):
    path = tmp_path / "EXT1940USCB.dat"
    path.write_text((household() + "\n" + person(PEOPLE[0]) + "\n") * 20 + "P123\n")
    with pytest.raises(InvalidInput, match="line 41:"):
        list(ARCHIVE_LAYOUT.read(path, block_bytes=730))


def test_a_file_cut_in_its_last_line_is_refused(tmp_path):
    path = archive(tmp_path / "EXT1940USCB.dat")
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(InvalidInput, match=r"line 10: .*273"):
        load_census(path)


def csv_text(people=PEOPLE):
    names = ["YEAR", *PEOPLE[0]]
    rows = [",".join(str({"YEAR": 1940, **one}[name]) for name in names) for one in people]
    return "\n".join([",".join(f'"{name}"' for name in names), *rows]) + "\n"


@pytest.mark.parametrize("name", ["extract.csv", "extract.csv.gz"])
def test_a_csv_extract_loads(tmp_path, name):
    text = csv_text().encode()
    (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    assert_is_people(load_census(tmp_path / name))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t.replace("WKSWORK1", "WKSWORK2"), r"lacks WKSWORK1; an extract needs"),
        (lambda t: t.lower(), r"lacks WKSWORK1, AGE.*upper case"),
        (
            lambda t: t.replace("1940,2,101", "1940,2,old"),
            r"extract.csv, line 3, field 3: this is not a CSV extract of whole numbers$",
        ),
        (lambda t: t.replace("1940,2,101", "1940,2,"), r"line 3: AGE is empty"),
        (lambda t: t.replace("1940,2,101,", ""), r"line 3: 7 fields where there should be 10"),
        (lambda t: t.splitlines()[0] + "\n" + t.splitlines()[3] + "\n", r"no person with WKSWORK1"),
        (lambda t: "", r"[Ee]mpty"),
    ],
)
def test_a_wrong_csv_extract_is_refused(tmp_path, change, words):
    (tmp_path / "extract.csv").write_text(change(csv_text()))
    with pytest.raises(InvalidInput, match=words):
        load_census(tmp_path / "extract.csv")


CODEBOOK = """<codeBook xmlns="ddi:codebook:2_5">
  <stdyDscr>
    <citation><serStmt><serName abbr="usa">IPUMS USA</serName><serInfo>DOI:10.18128/D010</serInfo></serStmt></citation>
    <dataAccs><useStmt><citReq>Cite it.</citReq><conditions>None.</conditions></useStmt></dataAccs>
  </stdyDscr>
  <fileDscr>
    <fileTxt>
      <fileName>usa_00001.dat</fileName><fileCont>Microdata records</fileCont><fileStrc type="{structure}"/>
      <fileType charset="ISO-8859-1"/><format>fixed length fields</format><filePlac>IPUMS</filePlac>
    </fileTxt>
  </fileDscr>
  <dataDscr>{variables}</dataDscr>
</codeBook>
"""
"""What `ipumspy` reads of the codebooks that IPUMS writes."""


@pytest.fixture
def extract(tmp_path):
    """A rectangular IPUMS extract, and its codebook beside it."""
    pytest.importorskip("ipumspy")
    places, first = {}, 1
    for name, width in {"YEAR": 4, "SEX": 1, "AGE": 3, "MARST": 1, "CHBORN": 2, "SCHOOL": 1, "EMPSTAT": 1}.items():
        places[name], first = (first, first + width - 1), first + width
    for name, width in {"OCC": 4, "IND": 4, "WKSWORK1": 2}.items():
        places[name], first = (first, first + width - 1), first + width
    rows = []
    for one in PEOPLE:
        values = {"YEAR": 1940, **one}
        rows.append("".join(f"{values[name]:0{last - start + 1}d}" for name, (start, last) in places.items()))
    (tmp_path / "usa_00001.dat.gz").write_bytes(gzip.compress(("\n".join(rows) + "\n").encode()))
    variables = "".join(
        f'<var ID="{name}" dcml="0" files="ExtractData" intrvl="discrete" name="{name}">'
        f'<location StartPos="{start}" EndPos="{last}" width="{last - start + 1}"/>'
        f'<labl>{name}</labl><txt>{name}</txt><concept>c</concept><varFormat schema="other" type="numeric"/></var>'
        for name, (start, last) in places.items()
    )
    (tmp_path / "usa_00001.xml").write_text(CODEBOOK.format(structure="rectangular", variables=variables))
    return tmp_path / "usa_00001.dat.gz"


def test_an_ipums_extract_loads_as_its_codebook_says(extract):
    assert_is_people(load_census(extract))
    elsewhere = extract.with_name("codebook.xml")
    extract.with_name("usa_00001.xml").rename(elsewhere)
    assert_is_people(load_census(extract, ddi=elsewhere))


def test_an_extract_without_the_fields_is_refused(extract):
    codebook = extract.with_name("usa_00001.xml")
    codebook.write_text(codebook.read_text().replace("WKSWORK1", "WKSWORK2").replace("MARST", "MARSTAT"))
    with pytest.raises(InvalidInput, match=r"usa_00001.xml lacks WKSWORK1, MARST; an extract needs .*It has YEAR, SEX"):
        load_census(extract)


def test_a_hierarchical_extract_is_refused(extract):
    extract.with_name("usa_00001.xml").write_text(CODEBOOK.format(structure="hierarchical", variables=""))
    with pytest.raises(InvalidInput, match="describes a hierarchical extract; ask IPUMS for a rectangular one"):
        load_census(extract)


def test_the_genuine_extract_reads_as_ipumspy_reads_it(genuine):
    readers = pytest.importorskip("ipumspy.readers")
    path, ddi = genuine("usa_00172.dat.gz"), genuine("usa_00172.xml")
    layout = ipums_layout(ddi, ("YEAR", "PERNUM", "SEX", "AGE"))
    ours = list(layout.read(path, block_bytes=200_000))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = readers.read_microdata(readers.read_ipums_ddi(ddi), path, subset=list(layout.fields))
    for name in layout.fields:
        assert np.array_equal(np.concatenate([columns[name] for _, columns in ours]), theirs[name].to_numpy())


def test_a_file_that_is_no_codebook_is_refused(tmp_path):
    pytest.importorskip("ipumspy")
    (tmp_path / "x.xml").write_text("<html/>")
    with pytest.raises(InvalidInput, match="not a DDI codebook"):
        load_census(archive(tmp_path / "x.dat"))


def test_without_ipumspy_the_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ipumspy", None)
    with pytest.raises(MissingExtra, match=r"pip install 'labeldp\[data\]'"):
        ipums_layout(tmp_path / "x.xml")


@pytest.mark.parametrize(
    ("name", "words"), [("x.txt", "expected EXT1940USCB"), ("x.dat", "is not a file"), ("x.csv", "is not a file")]
)
def test_other_paths_are_refused(tmp_path, name, words):
    with pytest.raises(InvalidInput, match=words):
        load_census(tmp_path / name)
