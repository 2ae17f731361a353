"""Approximate covering on a space-filling curve, as in the paper, with its errors corrected."""
