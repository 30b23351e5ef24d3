"""The message: the folder that goes from the labels party to the features party. It is written and read only here.

May import `mechanisms` and below. Known to `engines`, `release` and everything above them.

| file | what it does |
|---|---|
| `layout` | names the files in the folder |
| `description` | writes and reads `mechanism.json` |
| `labels_file` | writes and reads the labels; a file format is added here |
| `unique_ids` | refuses labels that hold an id twice |
| `privacy_card` | writes `PRIVACY.md` |
| `listing` | describes files and batches for the manifest |
| `manifest` | writes and reads `manifest.json`, and compares the folder with it |
| `signing` | reads a sender's keys, signs and verifies |
| `writer` | writes a whole folder |
| `reader` | opens a folder as a `Message` |
"""

from labeldp.message.reader import Message

__all__ = ["Message"]
