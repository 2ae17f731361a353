"""Approximate covering on a space filling curve, as the paper has it, with its repairs."""
