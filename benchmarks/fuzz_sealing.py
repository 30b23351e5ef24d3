"""Digests made right again after a corruption, as an attacker makes them, so that the readers behind the comparison are reached.

Each function takes a set of files and returns it with the digests of whatever it now holds. What is too damaged for that stays as
it is.
"""

import base64
import hashlib
import io
import json
import sqlite3
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from labeldp.artifact.signing import CONTEXT

Scene = dict[str, bytes]


def with_mechanism_digest(content: bytes) -> bytes:
    """A description of a mechanism with the digest of its numbers."""
    from labeldp.json_text import read_record
    from labeldp.mechanisms.mechanism import Grid, Thresholds
    from labeldp.sampling import table_from_json

    try:
        record = json.loads(content)
        kind = Grid if "domain" in record["encoder"] else Thresholds
        encoder, table = read_record(kind, record["encoder"], "it"), table_from_json(record["table"])
        state = hashlib.sha256(b"labeldp mechanism 1")
        outputs = np.asarray(record["outputs"], "<f8")
        for part in (encoder.canonical(), outputs.tobytes(), table.canonical()):
            state.update(len(part).to_bytes(8, "little"))
            state.update(part)
        record["digest"] = state.hexdigest()
        return json.dumps(record).encode()
    except Exception:  # noqa: BLE001 - too damaged for a digest
        return content


def with_manifest(scene: Scene, target: str, key: Ed25519PrivateKey | None = None, folder: str = "out") -> Scene:
    """A release in a folder with a manifest of the files that it holds, signed anew if there is a key and it was signed."""
    name = f"{folder}/manifest.json"
    if target == "out/mechanism.json":
        scene = scene | {target: with_mechanism_digest(scene[target])}
    try:
        record = json.loads(scene[name])
        if target != name:
            record["manifest"] |= _listed(scene, record["manifest"], folder)
        if key is not None and record["signature"]:
            text = json.dumps(record["manifest"], sort_keys=True, separators=(",", ":")).encode("ascii")
            record["signature"]["value"] = base64.b64encode(key.sign(CONTEXT + text)).decode()
        return scene | {name: json.dumps(record).encode()}
    except Exception:  # noqa: BLE001 - too damaged for a manifest
        return scene


def _listed(scene: Scene, manifest: dict[str, Any], folder: str = "out") -> dict[str, Any]:
    files = []
    for entry in manifest["files"]:
        content, rows = scene[f"{folder}/{entry['name']}"], entry["rows"]
        if entry["name"].endswith("parquet"):
            try:
                rows = pq.ParquetFile(io.BytesIO(content)).metadata.num_rows
            except Exception:  # noqa: BLE001 - the rows that it had
                rows = entry["rows"]
        files.append(entry | {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content), "rows": rows})
    changed: dict[str, Any] = {"files": files}
    try:
        if folder == "out":
            described = json.loads(scene["out/mechanism.json"])
            changed |= {name: described[name] for name in ("release", "epsilon_total") if name in described}
        else:
            changed["epsilon_total"] = json.loads(scene[f"{folder}/sums.json"])["epsilon"]
    except (KeyError, ValueError, TypeError, RecursionError):
        pass
    return changed


def with_listed_parts(scene: Scene, batch: str) -> Scene:
    """A message in `out/` that lists the parts of its only batch, and a key file that knows the batch by them."""
    manifest, keys = json.loads(scene["out/manifest.json"]), json.loads(scene["key.json"])
    papers = [entry for entry in manifest["manifest"]["files"] if entry["rows"] is None]
    names = sorted(name.removeprefix("out/") for name in scene if name.startswith(f"out/{batch}/"))
    manifest["manifest"]["files"] = papers + [{"name": name, "rows": 0} for name in names]
    manifest["manifest"] |= _listed(scene, manifest["manifest"])
    entries = manifest["manifest"]["files"][len(papers) :]
    text = json.dumps(entries, sort_keys=True, separators=(",", ":")).encode("ascii")
    keys["releases"][0]["parts"] = [hashlib.sha256(text).hexdigest()]
    return scene | {"out/manifest.json": json.dumps(manifest).encode(), "key.json": json.dumps(keys).encode()}


def with_model_digest(scene: Scene) -> Scene:
    """A model in `model/` whose description has the digest of its file."""
    try:
        record = json.loads(scene["model/model.json"])
        record["model_sha256"] = hashlib.sha256(scene["model/model.safetensors"]).hexdigest()
        return scene | {"model/model.json": json.dumps(record).encode()}
    except (ValueError, TypeError, RecursionError):
        return scene


def with_chain(content: bytes) -> bytes:
    """A ledger whose journal's hashes fit its entries."""
    with tempfile.NamedTemporaryFile(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as file:
        Path(file.name).write_bytes(content)
        try:
            connection = sqlite3.connect(file.name, isolation_level=None)
            try:
                _chain(connection)
            finally:
                connection.close()
        except (sqlite3.Error, ValueError, TypeError, AttributeError):  # too damaged for a chain
            return content
        return Path(file.name).read_bytes()


def _chain(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("BEGIN")
    trigger = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'entry_unchanged'").fetchone()
    connection.execute("DROP TRIGGER IF EXISTS entry_unchanged")
    last = "0" * 64
    for number, entry in connection.execute("SELECT number, entry FROM journal ORDER BY number").fetchall():
        last = hashlib.sha256(f"{last}\n{entry}".encode("utf-8", "surrogatepass")).hexdigest()
        connection.execute("UPDATE journal SET hash = ? WHERE number IS ?", (last, number))
    if trigger is not None:
        connection.execute(trigger[0])
    connection.execute("COMMIT")
