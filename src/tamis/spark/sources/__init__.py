"""Files as DataFrames, with every record that cannot be read kept beside its reason. Start with `formats`."""
