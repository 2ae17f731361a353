"""The ready-made stream: `stream` matches micro-batches into a directory, `batch_log` holds what each one used."""
