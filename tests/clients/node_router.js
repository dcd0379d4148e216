// The Node.js driver on the routers of a cluster: write to a sharded collection, transact, watch, and resume on
// another router. Run with the connection strings of two routers.
"use strict";

const assert = require("node:assert/strict");
const { MongoClient } = require("mongodb");

const [uri, otherUri, databaseName] = process.argv.slice(2);
const NUMBERS = Array.from({ length: 60 }, (_, number) => number);

async function take(stream, count) {
  const events = [];
  while (events.length < count) {
    events.push(await stream.next());
  }
  return events;
}

const keys = (events) => events.map((event) => event.documentKey._id);

async function sharded(client) {
  const admin = client.db("admin");
  assert.equal((await admin.command({ hello: 1 })).msg, "isdbgrid");
  assert.equal((await admin.command({ listShards: 1 })).shards.length, 2);
  const ns = `${databaseName}.spread`;
  await admin.command({ shardCollection: ns, key: { _id: "hashed" } });
  return client.db(databaseName).collection("spread");
}

async function main() {
  const client = new MongoClient(uri, { serverSelectionTimeoutMS: 10_000 });
  const other = new MongoClient(otherUri, { serverSelectionTimeoutMS: 10_000 });
  try {
    const spread = await sharded(client);
    const stream = spread.watch([], { maxAwaitTimeMS: 100 });
    assert.equal(await stream.tryNext(), null);
    for (const _id of NUMBERS) await spread.insertOne({ _id, n: 0 });
    const events = await take(stream, NUMBERS.length);
    assert.deepEqual(keys(events), NUMBERS);

    // Another router resumes the stream.
    const resumed = other.db(databaseName).collection("spread").watch([], { resumeAfter: events[29]._id });
    assert.deepEqual(keys(await take(resumed, 30)), NUMBERS.slice(30));
    await resumed.close();

    assert.equal((await spread.updateMany({}, { $inc: { n: 1 } })).modifiedCount, NUMBERS.length);
    await take(stream, NUMBERS.length);
    const found = await spread.find({}, { batchSize: 7 }).sort({ _id: -1 }).toArray();
    assert.deepEqual(
      found.map((document) => document._id),
      [...NUMBERS].reverse()
    );
    assert.deepEqual(
      await spread.aggregate([{ $group: { _id: null, sum: { $sum: "$n" } } }]).toArray(),
      [{ _id: null, sum: NUMBERS.length }]
    );

    // All of a transaction over both shards comes between the events around it.
    await spread.insertOne({ _id: "before" });
    await client.withSession((session) =>
      session.withTransaction(async () => {
        for (let number = 100; number < 110; number++) await spread.insertOne({ _id: number }, { session });
      })
    );
    await spread.deleteMany({ _id: { $gte: 100 } });
    const around = await take(stream, 21);
    assert.equal(around[0].documentKey._id, "before");
    for (const [begin, type] of [[1, "insert"], [11, "delete"]]) {
      const part = around.slice(begin, begin + 10);
      assert.ok(part.every((event) => event.operationType === type));
      assert.equal(new Set(keys(part)).size, 10);
    }

    await spread.drop();
    const last = await take(stream, 2);
    assert.deepEqual(
      last.map((event) => event.operationType),
      ["drop", "invalidate"]
    );
    const tokens = [...events, ...around].map((event) => event._id._data);
    process.stdout.write(JSON.stringify({ tokens }) + "\n");
  } finally {
    await client.close();
    await other.close();
  }
}

main().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
