"""Bounds and calibrations that more than one file uses, each written once as a `Formula`."""
