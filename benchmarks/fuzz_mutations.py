"""Ways to corrupt a file: any bytes, and files of text, JSON, CSV, Parquet, gzip, SQLite, PEM and safetensors so that readers get deep.

A mutation takes a random generator and the content and returns other content. `mutated` chooses those that fit the file's name.
"""

import base64
import gzip
import io
import json
import re
import sqlite3
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

Mutation = Callable[[Random, bytes], bytes]

MAGIC_INTEGERS = [0, 1, 2, 127, 128, 255, 256, 32767, 65535, 2**31 - 1, 2**31, 2**32 - 1, 2**53, 2**63 - 1, 2**64 - 1]
MAGIC_BYTES = [
    *(struct.pack("<I", number & 0xFFFFFFFF) for number in MAGIC_INTEGERS),
    *(struct.pack("<Q", number) for number in MAGIC_INTEGERS),
    *(struct.pack("<d", number) for number in (0.0, -0.0, float("inf"), float("nan"), 1e308, 5e-324)),
    *(b"PAR1", b"ARROW1", b"\x1f\x8b\x08", b"SQLite format 3\x00", b"\xff\xff\xff\xff", b"\x00" * 16),
]
EXTREME_NUMBERS = [
    *(
        "0",
        "-0",
        "-1",
        "1e999",
        "-1e999",
        "1e308",
        "5e-324",
        "1e-999",
        "9" * 25,
        "9" * 400,
        "9" * 5000,
        "0." + "0" * 500 + "1",
    ),
    *(
        "NaN",
        "nan",
        "inf",
        "-Infinity",
        "1,5",
        "1.234,5",
        "1_0",
        "0x10",
        "1/0",
        "1/3",
        "٣",
        "１",
        "+7",
        "007",
        "1e",
        "",
        " ",
        "--1",
    ),
    *("18446744073709551616", "9223372036854775808", "-9223372036854775809", "2.5", "true", "null"),
]
EXTREME_TEXTS = [
    *(
        "",
        " ",
        "\x00",
        "a\x00b",
        "é",
        "\U0001f600",
        "\u202e",
        "x" * 100_000,
        "../../etc/passwd",
        "/dev/zero",
        "%s%n",
        "'; DROP TABLE release;",
    ),
    *("\ud800", "１", "\r\n", '"', "nan", "0", "-1", "1e999", "9" * 5000, "0" * 32, "z" * 64),
]
EXTREME_VALUES: list[Any] = [
    *(
        None,
        True,
        False,
        0,
        -1,
        1,
        2**31,
        2**53 + 1,
        2**63,
        2**64,
        10**30,
        0.5,
        -0.0,
        1e308,
        -1e308,
        5e-324,
        1e100,
        [],
        {},
        [[]],
        [None],
    ),
    *([0] * 1000, {"a": 1}, *EXTREME_TEXTS),
]
_RAW = [
    "[" * 100_000 + "]" * 100_000,
    '{"a":' * 5000 + "1" + "}" * 5000,
    "9" * 5000,
    "1e999",
    "NaN",
    "-Infinity",
    '"\\ud800"',
    "[1,]",
    "1 2",
]
"""What no JSON writer writes: it replaces a place holder in the text."""
_NUMBER = re.compile(rb"-?[0-9][0-9.eE+-]*")


def mutated(random: Random, content: bytes, name: str, others: Sequence[bytes]) -> bytes:
    """The content with one to three corruptions that fit a file of that name. `others` are files to splice with."""
    fitting = _fitting(name)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        if random.random() < 0.6 and fitting:
            content = random.choice(fitting)(random, content)
        elif others and random.random() < 0.1:
            content = _splice(random, content, random.choice(others))
        else:
            content = random.choice(BYTES)(random, content)
    return content


def _fitting(name: str) -> list[Mutation]:
    if name.endswith(".gz"):
        return [_inside_gzip(name.removesuffix(".gz"))]
    kinds = {
        (".json",): [json_tree, json_tree, numbers],
        (".jsonl",): [lines, numbers],
        (".csv", ".tsv", ".txt"): [table, table, lines, numbers],
        (".parquet", ".arrow", ".arrows"): [footer, footer, magic],
        (".db",): [database, database, database, magic],
        (".safetensors",): [tensors, tensors, tensors, tensor_header, magic],
        (".pem",): [pem, pem, lines],
        (".dat", ".xml", ".md"): [lines, numbers],
    }
    return next((found for suffixes, found in kinds.items() if name.endswith(suffixes)), [])


def _place(random: Random, content: bytes) -> int:
    return random.randrange(len(content) + 1)


def _chunk(random: Random, content: bytes) -> tuple[int, int]:
    start = _place(random, content)
    return start, min(len(content), start + random.choice((1, 2, 8, 64, 512)))


def flip_bits(random: Random, content: bytes) -> bytes:
    """A few bits turned over."""
    data = bytearray(content)
    for _ in range(random.choice((1, 1, 2, 8, 32)) if data else 0):
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    return bytes(data)


def cut(random: Random, content: bytes) -> bytes:
    """The end, or the beginning, cut off."""
    place = _place(random, content)
    return content[:place] if random.random() < 0.7 else content[place:]


def repeat(random: Random, content: bytes) -> bytes:
    """A chunk twice, or many times."""
    start, end = _chunk(random, content)
    return content[:end] + content[start:end] * random.choice((1, 1, 2, 100)) + content[end:]


def remove(random: Random, content: bytes) -> bytes:
    """A chunk left out."""
    start, end = _chunk(random, content)
    return content[:start] + content[end:]


def swap(random: Random, content: bytes) -> bytes:
    """Two chunks exchanged."""
    a, b, c, d = sorted(_place(random, content) for _ in range(4))
    return content[:a] + content[c:d] + content[b:c] + content[a:b] + content[d:]


def magic(random: Random, content: bytes) -> bytes:
    """A number or mark that readers treat specially, over what was there or between."""
    place, mark = _place(random, content), random.choice(MAGIC_BYTES)
    return content[:place] + mark + content[place + (len(mark) if random.random() < 0.7 else 0) :]


def noise(random: Random, content: bytes) -> bytes:
    """A chunk of random bytes."""
    start, end = _chunk(random, content)
    return content[:start] + random.randbytes(end - start) + content[end:]


def nothing(random: Random, content: bytes) -> bytes:
    """An empty file, or one of zeros."""
    return b"" if random.random() < 0.5 else bytes(len(content))


def _splice(random: Random, content: bytes, other: bytes) -> bytes:
    return content[: _place(random, content)] + other[_place(random, other) :]


BYTES: list[Mutation] = [flip_bits, flip_bits, flip_bits, cut, repeat, remove, swap, magic, noise, nothing]


def numbers(random: Random, content: bytes) -> bytes:
    """A number in a text replaced by an extreme one."""
    found = list(_NUMBER.finditer(content))
    if not found:
        return content
    hit = random.choice(found)
    return content[: hit.start()] + random.choice(EXTREME_NUMBERS).encode() + content[hit.end() :]


def lines(random: Random, content: bytes) -> bytes:
    """Lines lost, doubled, exchanged or with other ends."""
    kept = content.split(b"\n")
    i, j = random.randrange(len(kept)), random.randrange(len(kept))
    what = random.randrange(6)
    if what == 0:
        del kept[i]
    elif what == 1:
        kept.insert(i, kept[j])
    elif what == 2:
        kept[i], kept[j] = kept[j], kept[i]
    elif what == 3:
        kept[i] += random.choice((b"\r", b"\x00", b" ", b"\xff", b"\xc3", b"\x1f", b"\x1a"))
    elif what == 4:
        kept[i] = b""
    return random.choice((b"\n", b"\n", b"\n", b"\r\n", b"\r")).join(kept)


def table(random: Random, content: bytes) -> bytes:
    """A field, a delimiter, quotes, the header or the encoding of a text table changed."""
    delimiter = b"\t" if content.count(b"\t") > content.count(b",") else b","
    rows = [row.split(delimiter) for row in content.split(b"\n")]
    i = random.randrange(len(rows))
    j = random.randrange(len(rows[i]))
    what = random.randrange(9)
    if what == 0:
        return random.choice((b"\xef\xbb\xbf", b"\xff\xfe", b"\x00")) + content
    if what == 1:
        text = content.decode("utf-8", "replace")
        return text.encode(random.choice(("utf-16", "utf-16-le", "utf-32", "utf-8-sig", "cp500")), "replace")
    if what == 2:
        return content.replace(delimiter, random.choice((b";", b"|", b"\t", b",", b" ", b"\x01")))
    if what == 3:
        rows[i].insert(j, random.choice((b"", b"x", b'"', b"'", b'a"b')))
    elif what == 4:
        del rows[i][j]
    elif what == 5:
        rows[i][j] = random.choice((b'"', b'"%b', b'%b"', b'"%b"', b'"%b\n%b"', b"'%b'", b'""%b""')).replace(
            b"%b", rows[i][j]
        )
    elif what == 6:
        rows[i][j] = random.choice(EXTREME_TEXTS).encode("utf-8", "surrogatepass")
    elif what == 7:
        rows[i][j] = random.choice(EXTREME_NUMBERS).encode()
    else:
        rows[i][j] = rows[i][j].replace(b".", b",")
    return b"\n".join(delimiter.join(row) for row in rows)


def json_tree(random: Random, content: bytes) -> bytes:
    """A value, a name or a place in a JSON tree changed, some in ways that only text can say."""
    try:
        tree = json.loads(content)
    except (ValueError, RecursionError):
        return numbers(random, content)
    places = list(_places(tree))
    if not places:
        return numbers(random, content)
    holder, key = random.choice(places)
    what = random.randrange(8)
    if what == 0:
        del holder[key]
    elif what == 1 and isinstance(holder, dict):
        holder[random.choice(EXTREME_TEXTS)] = holder.pop(key)
    elif what == 2 and isinstance(holder, list):
        holder[key:key] = [holder[key]] * random.choice((1, 2, 1000))
    elif what == 3:
        other, place = random.choice(places)
        holder[key], other[place] = other[place], holder[key]
        if _too_deep(tree):  # a branch was put into itself
            return content
    elif what == 4 and isinstance(holder[key], (int, float)) and not isinstance(holder[key], bool):
        holder[key] = random.choice(
            (-holder[key], holder[key] + 1, holder[key] * 2, str(holder[key]), float(holder[key] % 1e300))
        )
    elif what == 5:
        raw = random.choice(_RAW)
        holder[key] = "PLACE-HOLDER"
        return json.dumps(tree).replace('"PLACE-HOLDER"', raw).encode()
    elif what == 6 and isinstance(holder, dict):
        value = json.dumps(holder[key])
        again = json.dumps(random.choice(EXTREME_VALUES))
        holder[key] = "PLACE-HOLDER"
        return json.dumps(tree).replace('"PLACE-HOLDER"', f"{value}, {json.dumps(key)}: {again}").encode()
    else:
        holder[key] = random.choice(EXTREME_VALUES)
    return json.dumps(tree).encode()


def _places(tree: Any) -> Any:
    waiting = [tree]
    while waiting:
        holder = waiting.pop()
        if not isinstance(holder, (dict, list)):
            continue
        for key in list(holder) if isinstance(holder, dict) else range(len(holder)):
            yield holder, key
            waiting.append(holder[key])


def _too_deep(tree: Any, most: int = 60) -> bool:
    if not isinstance(tree, (dict, list)):
        return False
    return most == 0 or any(
        _too_deep(branch, most - 1) for branch in (tree.values() if isinstance(tree, dict) else tree)
    )


def footer(random: Random, content: bytes) -> bytes:
    """The metadata at the end of a Parquet or Arrow file changed, or the length of them."""
    if len(content) < 12:
        return content
    length = struct.unpack("<I", content[-8:-4])[0]
    start = max(4, len(content) - 8 - length) if length < len(content) else len(content) // 2
    what = random.randrange(4)
    if what == 0:
        changed = struct.pack("<I", random.choice(MAGIC_INTEGERS) & 0xFFFFFFFF)
        return content[:-8] + changed + content[-4:]
    if what == 1:
        return content[:start] + flip_bits(random, content[start:-8]) + content[-8:]
    if what == 2:
        return content[:start] + magic(random, content[start:-8]) + content[-8:]
    changed = random.choice((remove, repeat, swap, noise))(random, content[start:-8])
    return content[:start] + changed + struct.pack("<I", len(changed)) + content[-4:]


def database(random: Random, content: bytes) -> bytes:
    """A cell, a table, a trigger or a number in the head of a SQLite file changed through SQLite itself."""
    with tempfile.NamedTemporaryFile(dir=_fast_folder()) as file:
        Path(file.name).write_bytes(content)
        try:
            connection = sqlite3.connect(file.name, isolation_level=None)
            try:
                _change_database(random, connection)
            finally:
                connection.close()
        except (sqlite3.Error, UnicodeDecodeError, IndexError, TypeError):  # too damaged for SQLite already
            return flip_bits(random, content)
        return Path(file.name).read_bytes()


def _change_database(random: Random, connection: sqlite3.Connection) -> None:
    triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
    for trigger, _ in triggers:
        connection.execute(f'DROP TRIGGER "{trigger}"')
    names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    name = random.choice(names)
    columns = [row[1] for row in connection.execute(f'PRAGMA table_info("{name}")')]
    column = random.choice(columns)
    connection.execute("PRAGMA ignore_check_constraints = ON")
    what = random.randrange(12)
    if what == 0:
        connection.execute(f'DROP TABLE "{name}"')
    elif what == 1:
        connection.execute(f'ALTER TABLE "{name}" RENAME COLUMN "{column}" TO "other"')
    elif what == 2:
        connection.execute(f'DELETE FROM "{name}"')
    elif what == 3:
        connection.execute(
            f"PRAGMA {random.choice(('user_version', 'application_id'))} = {random.choice((0, 1, 99, -1))}"
        )
    else:
        _change_cell(random, connection, name, column)
    if what > 1 and random.random() < 0.9:  # without its triggers a ledger is refused at once
        for _, statement in triggers:
            connection.execute(statement)


def _change_cell(random: Random, connection: sqlite3.Connection, name: str, column: str) -> None:
    """Change one row's value, or all rows'. A text of JSON is mostly changed as JSON."""
    values = [value for (value,) in connection.execute(f'SELECT "{column}" FROM "{name}"')]
    old = random.choice(values)
    if isinstance(old, str) and old.startswith("{") and random.random() < 0.8:
        new: Any = json_tree(random, old.encode()).decode("utf-8", "replace")
    else:
        new = random.choice([*EXTREME_TEXTS[:-12], *EXTREME_NUMBERS, 0, -1, 2**62, 1e308, None, b"\xff\xfe"])
        new = new.encode("utf-8", "replace").decode() if isinstance(new, str) else new
    where = "" if random.random() < 0.2 else f' WHERE "{column}" IS ?'
    connection.execute(f'UPDATE "{name}" SET "{column}" = ?{where}', (new, old) if where else (new,))


def tensor_header(random: Random, content: bytes) -> bytes:
    """The header of a safetensors file changed, with its length made right or not."""
    parts = _tensor_parts(content)
    if parts is None:
        return flip_bits(random, content)
    header, data = parts
    changed = random.choice((json_tree, json_tree, numbers))(random, json.dumps(header).encode())
    length = len(changed) if random.random() < 0.9 else random.choice(MAGIC_INTEGERS)
    return struct.pack("<Q", length) + changed + data


def tensors(random: Random, content: bytes) -> bytes:
    """A tensor of a safetensors file changed, or two of them exchanged, with a header that fits. Most often the model's structure."""
    parts = _tensor_parts(content)
    if parts is None:
        return flip_bits(random, content)
    header, data = parts
    try:
        held = {name: data[slice(*entry["data_offsets"])] for name, entry in header.items() if name != "__metadata__"}
        name = "structure" if random.random() < 0.6 and "structure" in held else random.choice(sorted(held))
        what = random.randrange(8)
        if name == "structure":
            held[name] = random.choice((json_tree, json_tree, json_tree, numbers))(random, held[name])
        elif held[name][:2] == b"PK":
            held[name] = _inside_zip(random, held[name])
        elif what == 0:
            other = random.choice(sorted(held))
            held[name], held[other] = held[other], held[name]
            header[name], header[other] = header[other], header[name]
        elif what == 1:
            header[name]["dtype"] = random.choice(("U8", "I8", "I32", "I64", "F32", "F64", "BOOL", "F16", "U64"))
        elif what == 2:
            header[name]["shape"] = random.choice(([len(held[name])], [1, *header[name]["shape"]], [], [0], [2**40, 0]))
        elif what == 3:
            held[name] = random.choice((cut, repeat, remove, swap, noise))(random, held[name])
        else:
            held[name] = random.choice((flip_bits, magic))(random, held[name])[: len(held[name])]
        return _with_tensors(header, held)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):  # the header was changed before
        return flip_bits(random, content)


def _tensor_parts(content: bytes) -> tuple[dict[str, Any], bytes] | None:
    """The header and the data of a safetensors file."""
    try:
        length = struct.unpack("<Q", content[:8])[0]
        header = json.loads(content[8 : 8 + length])
    except (struct.error, ValueError, OverflowError, RecursionError):
        return None
    return (header, content[8 + length :]) if isinstance(header, dict) else None


def _with_tensors(header: dict[str, Any], held: dict[str, bytes]) -> bytes:
    start = 0
    for name, data in held.items():
        entry = header[name]
        if len(entry["shape"]) == 1 and len(data) != entry["data_offsets"][1] - entry["data_offsets"][0]:
            entry["shape"] = [len(data) // {"8": 1, "L": 1, "6": 2, "2": 4, "4": 8}.get(entry["dtype"][-1], 1)]
        entry["data_offsets"] = [start, start + len(data)]
        start += len(data)
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + b"".join(held.values())


def _inside_zip(random: Random, content: bytes) -> bytes:
    """One member of a zip archive changed."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
    except (zipfile.BadZipFile, OSError, EOFError, NotImplementedError, RuntimeError, ValueError):
        return flip_bits(random, content)
    if not members:
        return content
    name = "schema.json" if random.random() < 0.7 and "schema.json" in members else random.choice(sorted(members))
    members[name] = mutated(random, members[name], name, ())
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", random.choice((zipfile.ZIP_STORED,) * 5 + (zipfile.ZIP_DEFLATED,))) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name), data)
    return buffer.getvalue()


def pem(random: Random, content: bytes) -> bytes:
    """The key in a PEM file changed below its base 64."""
    found = re.fullmatch(rb"(-----BEGIN [^-]*-----\n)(.*)(-----END [^-]*-----\n?)", content, re.DOTALL)
    if found is None:
        return flip_bits(random, content)
    head, body, tail = found.groups()
    try:
        key = base64.b64decode(body)
    except ValueError:
        return flip_bits(random, content)
    kind = random.choice(
        (b"", b"PRIVATE ", b"PUBLIC ", b"RSA PRIVATE ", b"EC PRIVATE ", b"ENCRYPTED PRIVATE ", b"DSA ")
    )
    if random.random() < 0.3:
        head, tail = b"-----BEGIN " + kind + b"KEY-----\n", b"-----END " + kind + b"KEY-----\n"
    return head + base64.encodebytes(random.choice(BYTES)(random, key)) + tail


def _inside_gzip(name: str) -> Mutation:
    def change(random: Random, content: bytes) -> bytes:
        try:
            inner = gzip.decompress(content)
        except (OSError, EOFError, ValueError, zlib.error):
            return flip_bits(random, content)
        buffer = io.BytesIO()
        with gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0, compresslevel=1) as packed:
            packed.write(mutated(random, inner, name, ()))
        return buffer.getvalue()

    return change


def _fast_folder() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None
