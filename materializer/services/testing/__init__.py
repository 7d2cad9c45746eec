"""Tests of definitions: given rows and expected rows, and no row of the lake."""
