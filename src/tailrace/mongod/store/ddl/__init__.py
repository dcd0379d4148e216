"""Changes of the catalog: collections, indexes and views made, changed, renamed and dropped.

Each function works on a write unit, inside a job of the writer: it looks at the catalog as it is then, raises
before it has changed anything, makes the change and logs the entry that MongoDB would log. Names and options
come as a client sent them, with their types checked.

====================== ====================================================================================
`names`                what collections may be called
`lookup`               the collection a command is about, or the error that says why there is none
`collection_options`   the options of `create`, checked and in catalog order
`timeseries_options`   those of time-series collections
`create`               `create`
`views`                views: documents in `system.views`
`coll_mod`             `collMod`
`drop`                 `drop` and `dropDatabase`
`rename`               `renameCollection`, `convertToCapped`
`index_spec`           one index's specification, checked and completed
`key_pattern`          what an index may be on
`timeseries_indexes`   indexes on measurements, kept on buckets
`indexes`              `createIndexes` and `dropIndexes`
`index_changes`        other options for an index, as part of `collMod`
====================== ====================================================================================
"""
