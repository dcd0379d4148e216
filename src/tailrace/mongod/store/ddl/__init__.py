"""Changes of the catalog: create, change, rename and drop collections, indexes and views.

Each function works on a unit of work, inside a job of the writer: it reads the catalog as of then, raises
before it has changed anything, makes the change and logs the entry that MongoDB would log. Names and options
are those that the client sent, with their types checked.

========================= =================================================================================
`names`                   which names collections and views may have
`lookup`                  find the collection that a command names, or raise the error for a missing one
`collection_options`      the options of `create`, checked and in catalog order
`timeseries_options`      the option `timeseries` of `create`
`create`                  `create`
`views`                   views: documents in `system.views`
`coll_mod`                `collMod`
`coll_mod_index`          `collMod` of an index
`drop`                    `drop` and `dropDatabase`
`rename`                  `renameCollection`, `convertToCapped`
`index_spec`              an index specification, checked and completed
`key_pattern`             the key of an index specification, checked
`timeseries_indexes`      indexes on measurements, stored as indexes on buckets
`create_and_drop_indexes` `createIndexes` and `dropIndexes`
========================= =================================================================================
"""
