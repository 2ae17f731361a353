"""MICS: subscriptions as ranges of Hilbert keys; covering, subsumption, merging and matching in one ordered table."""
