"""Model files taken apart, changed and put together again, with the tools that an attacker has."""

import io
import json
import zipfile

import numpy as np
import pytest
import sklearn
import skops.io
from safetensors.numpy import load, save
from sklearn.linear_model import LinearRegression

LINE = LinearRegression().fit([[0.0], [1.0]], [0.0, 10.0])


def taken_apart(data):
    arrays = load(data)
    return json.loads(arrays.pop("structure").tobytes()), arrays


def put_together(structure, arrays=None):
    text = json.dumps(structure).encode()
    return save({**(arrays or {}), "structure": np.frombuffer(text, np.uint8)})


def holding(part, arrays=None):
    """A whole file of this version that holds one value."""
    return put_together({"scikit-learn": sklearn.__version__, "model": part}, arrays)


def inner(data, name):
    """The file taken apart, and the state of the first object of that type in it."""
    structure, arrays = taken_apart(data)
    waiting = [structure["model"]]
    while waiting:
        part = waiting.pop(0)
        if isinstance(part, dict) and part.get("object", [None])[0] == name:
            return structure, arrays, part["object"][1]
        waiting.extend(part.values() if isinstance(part, dict) else part if isinstance(part, list) else ())
    raise AssertionError(f"no {name}")


def changed(data, change):
    """The file with one change to the state of its outermost object."""
    structure, arrays = taken_apart(data)
    change(structure["model"]["object"][1])
    return put_together(structure, arrays)


def archive(change=lambda schema: None, compression=zipfile.ZIP_STORED, *, model=LINE, **files):
    """A file of skops with its index changed and files added. Arrays that the changed index does not name are left out."""
    with zipfile.ZipFile(io.BytesIO(skops.io.dumps(model))) as source:
        content = {name: source.read(name) for name in source.namelist()}
    schema = json.loads(content.pop("schema.json"))
    change(schema)
    text = json.dumps(schema)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as made:
        made.writestr("schema.json", text)
        for name, data in ({name: data for name, data in content.items() if f'"{name}"' in text} | files).items():
            made.writestr(name, data)
    return buffer.getvalue()


def attributes(schema, **values):
    """Set attributes of the estimator of an index, to nodes."""
    state = schema["content"]
    for name, value in values.items():
        if name not in state["content"]:
            state["key_types"]["content"].append(node("builtins", "str", "TypeNode"))
        state["content"][name] = value


def node(module, name, loader, **more):
    return {"__module__": module, "__class__": name, "__loader__": loader, **more}


def plain(value):
    return node("builtins", "str", "JsonNode", content=json.dumps(value), is_json=True)


def array(file="a.npy", **more):
    return node("numpy", "ndarray", "NdArrayNode", type="numpy", file=file, **({"__id__": 7} | more))


def as_file(values):
    """The bytes of an array in NumPy's own format."""
    buffer = io.BytesIO()
    np.save(buffer, values)
    return buffer.getvalue()


class Sentinel:
    """Leaves a trace when skops or anybody else makes one."""

    made = 0

    def __new__(cls, *_, **__):
        Sentinel.made += 1
        return super().__new__(cls)

    def __setstate__(self, state):
        Sentinel.made += 1

    def __call__(self, *_):
        Sentinel.made += 1


def touched(*_):
    Sentinel.made += 1


@pytest.fixture(autouse=True)
def nothing_is_run(tmp_path, monkeypatch):
    """For test modules that import it: nothing that a file names was called, and no file was left."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Sentinel, "made", 0)
    yield
    assert Sentinel.made == 0
    assert list(tmp_path.iterdir()) == []
