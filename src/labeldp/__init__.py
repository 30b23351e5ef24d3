"""labeldp: train regression models when the labels are private."""
