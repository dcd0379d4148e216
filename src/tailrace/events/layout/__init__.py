"""The bytes of an event, of a resume token and of a plain oplog entry, each written down once.

A layout is a row of fixed pieces and named holes (`template.py`). Writing one event, writing many, building
columns with numpy, reading the history back and recognising plain entries all interpret these rows.

============== ==========================================================================================
`template`     fixed pieces and holes, and how they are filled and read
`fields`       the fields of an event in their order, and which streams show them
`event`        events as bytes, written and read by these fields
`token`        the components of a resume token in their order, written and read
`entry`        a plain oplog entry: where its documents and times are
============== ==========================================================================================
"""
