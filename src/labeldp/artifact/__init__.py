"""The folder that the labels party sends to the features party, for every kind of release.

| file | what it does |
|---|---|
| `manifest` | names the files of a folder, lists them with digests, seals a new folder and opens an existing one |
| `signing` | reads a sender's keys, signs and verifies |
| `description` | `mechanism.json`, the public description of a message |
| `card` | `PRIVACY.md`, the promise of any release in plain words |
| `labels_file` | writes and reads the labels of a message |
| `reader` | opens a folder of labels as a `Message` |
| `id_join` | matches the records of two files by id, and rejects labels with duplicate ids |

The descriptions and readers of other kinds are in `release.sums`, `evaluate.score` and `evaluate.report`.
"""

from labeldp.artifact.reader import Message

__all__ = ["Message"]
