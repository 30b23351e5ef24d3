"""Noisy sums of labels instead of noisy labels, computed by whoever holds the labels (the central model of differential privacy).

`SumQueries` holds the labels and answers with exact noise; `PrivateSums` is what may be handed on. Everything else is post-processing of
such answers with public features. The files, by what they are for:

- **The release.** `queries` is the object that is asked; `sum_source` has its questions, `asking` its budget and noise, `held_labels` the
  exact sums. `answer` is one answer with its sensitivity and variance, `private_sums` all of them. `sums_proof`, `sums_card` and
  `sums_json` prove, word and store them. `engine_sums` answers from sums that an engine added up.
- **The model.** `learner` decides which sums are asked for in which order. `partitions` cuts columns into cells, `inference` finds the range
  of the labels and the effects of cells, `questions` chooses the next sums. `sums_model` predicts.
- **One round between two parties.** The features party: `cells_plan` plans and makes the model, `cells_file` is what it sends. The labels
  party: `sums_for_cells` does all, with `id_matching`, `cell_columns` (what is asked) and `sums_answer` (the folder that it sends back).
- **A test error.** `held_out` and `held_out_figures`.

May import `release` and below.
"""
