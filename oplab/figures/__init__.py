"""Figures that several lessons draw."""
