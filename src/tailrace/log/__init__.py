"""Engines that push entries through the stages. Level 3."""
