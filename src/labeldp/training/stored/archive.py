"""The archive of a skops file, checked before skops reads it: an index (schema.json) and the arrays that the index names.

What skops reads from an archive that passes takes memory and time in proportion to the archive's size.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from labeldp.errors import InvalidInput

PROTOCOL = 2
"""The version of the skops format that is read."""
INDEX = "schema.json"
Node = dict[str, Any]


def check_archive(data: bytes, check_node: Callable[[Node], None]) -> None:
    """Refuse a compressed archive, one whose files overlap, an index that `check_node` refuses, and arrays that it does not name."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = archive.infolist()
        plain = all(member.compress_type == zipfile.ZIP_STORED for member in members)
        if not plain or sum(member.file_size for member in members) > len(data):
            raise InvalidInput("the archive is compressed or its files overlap")
        schema = json.loads(archive.read(INDEX))
        if not isinstance(schema, dict) or schema.get("protocol") != PROTOCOL:
            raise InvalidInput(f"the model is not of version {PROTOCOL} of the skops format")
        for node in _nodes(schema):
            check_node(node)
        _check_identities(
            schema, {member.filename: hashlib.sha256(archive.read(member)).digest() for member in members}
        )
        names = _arrays(schema)
        if sorted(member.filename for member in members) != sorted([INDEX, *names]):
            raise InvalidInput("the files of the archive are not those that its index names")
        for name in names:
            _check_array(archive.read(name))


def _nodes(part: Any) -> Iterator[Node]:
    """Every node of a schema, at any depth."""
    waiting = [part]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            if "__loader__" in part or "__class__" in part:
                yield part
            waiting.extend(part.values())
        elif isinstance(part, list):
            waiting.extend(part)


def _check_identities(schema: Node, digests: dict[str, bytes]) -> None:
    """Refuse an index in which one id stands for two values.

    skops takes a node whose id it has seen for the first node with that id, and does not look at what else is written there.
    Files that it wrote have the whole value at each place. If all do, what is written is what is read. Otherwise a short index
    can stand for a model of any size, and a node can come from a place where nobody expects it.
    """
    forms: dict[Any, int] = {}
    known: dict[int, int] = {}

    def form(part: Any) -> int:
        """A number for the value that is written here. Equal values have the same number, whatever ids and files they have."""
        if isinstance(part, dict):
            file = part.get("file")
            values = {**part, "file": digests.get(file)} if isinstance(file, str) else part
            key: Any = (dict, *((name, form(value)) for name, value in values.items() if name != "__id__"))
        elif isinstance(part, list):
            key = (list, *map(form, part))
        else:
            key = (type(part), part)
        number = forms.setdefault(key, len(forms))
        if isinstance(part, dict) and "__id__" in part:
            identity = part["__id__"]
            if type(identity) is not int or known.setdefault(identity, number) != number:
                raise InvalidInput("the index of the archive is damaged: one id stands for two values")
        return number

    form(schema)


def _arrays(schema: Node) -> list[str]:
    """The files that the index names. skops reads a file once for each id that has it."""
    owners: dict[str, Any] = {}
    for node in _nodes(schema):
        if node.get("__loader__") == "NdArrayNode" and node.get("type") == "numpy":
            name, owner = node.get("file"), node.get("__id__")
            if not isinstance(name, str) or not owner or owners.setdefault(name, owner) != owner:
                raise InvalidInput("an array is damaged: it has no file of its own")
    return list(owners)


def _check_array(data: bytes) -> None:
    """Refuse what is no array of plain values, or claims another size than it has: NumPy would reserve memory for it."""
    stream = io.BytesIO(data)
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(stream)
    size = dtype.itemsize
    for side in shape:
        size *= side
    if dtype.hasobject or size != len(data) - stream.tell():
        raise InvalidInput("an array is damaged")
