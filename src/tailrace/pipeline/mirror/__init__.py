"""Mirroring collections as tables: copy ranges, then apply changes, without a gap."""
