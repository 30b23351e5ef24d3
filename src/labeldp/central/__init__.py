"""Noisy sums of labels instead of noisy labels, computed by whoever holds the labels (the central model of differential privacy).

`SumQueries` holds the labels and answers with exact noise; `PrivateSums` is what may be handed on. Everything else is post-processing of
such answers with public features. The files, by what they are for:

- **The release.** `queries` is the object that is asked; `held_labels` adds up exactly and `sums_draw` adds the noise within one budget.
  `answer` is one answer with its sensitivity and variance, `private_sums` all of them with proof, card and JSON. `sums_release` releases sums
  from files, arrays and engines, and reads the folder that travels.
- **The model.** `learner` decides which sums are asked for in which order. `partitions` cuts columns into cells, `inference` finds the range
  of the labels and the effects of cells, `questions` chooses the next sums. `sums_model` predicts.
- **One round between two parties.** The features party: `cells_plan` plans and makes the model, `cells_file` is what it sends. The labels
  party: `sums_release`.
- **A test error.** `held_out` and `held_out_figures`.

May import `release` and below.
"""
