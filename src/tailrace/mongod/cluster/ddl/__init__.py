"""Shared by the router's commands that change or measure collections."""
