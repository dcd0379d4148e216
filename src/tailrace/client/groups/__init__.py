"""Consumer groups: several workers share one change stream, and its positions are kept for them.

The documents of a stream are divided into a fixed number of slots by their `_id`; each slot is leased to one
worker, and has a position of its own. All decisions are functions of the group's state, a value that one
document holds; a change of it is written only if nobody has changed it meanwhile.

==================== ====================================================================================
`state`              the state of a group, and its changes: join, leave, take and release slots, commit
`sharing`            which worker should have which slots
`keys`               which slot an event belongs to
`store`              the port of the position store
`collection_store`   positions in a collection of a MongoDB deployment, or of a Tailrace server
`file_store`         positions in a SQLite file, for the workers of one machine
`membership`         one worker's part: it joins, sends heartbeats, and removes workers that have stopped
`delivery`           an event as a worker gets it, and a dead letter
`consumer`           the flow of a worker: read, deliver, wait for others, commit
`handling`           the flow around a handler: tries, back-off, dead letters, replay
`blocking`, `aio`    the two shells
`control`            pause, seek, lag and dead letters of a group, from outside
==================== ====================================================================================
"""
