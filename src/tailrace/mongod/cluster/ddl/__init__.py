"""What the router's commands that change or measure collections have in common.

================= =========================================================================================
`forwarding`      a client's command on shards, and their answers as one
`holding`         the placement held still, or alone, while such a command runs
`having`          which shards have a collection
`dropping`        collections and databases on shards, with and without an event
`index_rules`     what a shard key demands of the other indexes
`figures`         figures of shards added up
`unfinished`      commands on several shards that a kill interrupted
================= =========================================================================================
"""
