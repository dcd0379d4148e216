"""Logical sessions and their transactions."""
