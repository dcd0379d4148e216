"""MongoDB's wire protocol without I/O: bytes in, requests out; replies in, bytes out."""
