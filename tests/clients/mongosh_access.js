// mongosh with a user who may read: what it can do, as one JSON document.
"use strict";

const shop = db.getSiblingDB(process.env.TAILRACE_DATABASE);

function codeOf(work) {
  try {
    work();
    return null;
  } catch (error) {
    return error.code;
  }
}

function watch(opened) {
  opened.tryNext();
  opened.close();
}

print(
  JSON.stringify({
    user: db.runCommand({ connectionStatus: 1 }).authInfo.authenticatedUsers[0].user,
    found: Number(shop.orders.countDocuments()),
    insert: codeOf(() => shop.orders.insertOne({})),
    watch: codeOf(() => watch(db.getMongo().watch())),
    stream: codeOf(() => watch(shop.orders.watch([], { maxAwaitTimeMS: 50 }))),
  }),
);
