"""Figures of the lessons, and the tables that they show."""
