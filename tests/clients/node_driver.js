// The Node.js driver on a server: write, transact, watch, drop, resume. Run with the connection string.
//
// Each step has its own checks. The events are printed as one JSON document, so that the caller can compare them
// with those of another driver.
"use strict";

const assert = require("node:assert/strict");
const { MongoClient, MongoServerError } = require("mongodb");

const [uri, databaseName] = process.argv.slice(2);
const WAIT = { maxAwaitTimeMS: 2000 };

// The driver sends the aggregate with the first request for an event.
async function opened(stream) {
  const first = await stream.tryNext();
  assert.equal(first, null);
  return stream;
}

async function take(stream, count) {
  const events = [];
  while (events.length < count) {
    events.push(await stream.next());
  }
  return events;
}

const types = (events) => events.map((event) => event.operationType);

async function refused(code, action) {
  await assert.rejects(action, (error) => error instanceof MongoServerError && error.code === code);
}

async function writesAndEvents(database) {
  const orders = database.collection("orders");
  const stream = await opened(
    orders.watch([], { maxAwaitTimeMS: 1, fullDocument: "updateLookup", batchSize: 2 })
  );
  await orders.insertOne({ _id: 1, item: "teapot", tags: ["blue"] });
  await orders.updateOne({ _id: 1 }, { $set: { qty: 2 }, $push: { tags: "new" } });
  await orders.replaceOne({ _id: 1 }, { item: "cup" });
  await orders.bulkWrite([{ insertOne: { document: { _id: 2 } } }, { deleteOne: { filter: { _id: 1 } } }]);
  const events = await take(stream, 5);
  await stream.close();
  assert.deepEqual(types(events), ["insert", "update", "replace", "insert", "delete"]);
  assert.deepEqual(events[1].updateDescription.updatedFields, { qty: 2, "tags.1": "new" });
  assert.deepEqual(events[2].fullDocument, { _id: 1, item: "cup" });
  assert.deepEqual(await orders.find().toArray(), [{ _id: 2 }]);
  await refused(11000, () => orders.insertOne({ _id: 2 }));
  return events;
}

async function pipelines(database) {
  const orders = database.collection("orders");
  const stream = await opened(
    orders.watch([{ $match: { "fullDocument.wanted": true } }, { $project: { documentKey: 1 } }], {
      maxAwaitTimeMS: 1,
    })
  );
  await orders.insertMany([{ _id: 10 }, { _id: 11, wanted: true }, { _id: 12 }, { _id: 13, wanted: true }]);
  const events = await take(stream, 2);
  await stream.close();
  assert.deepEqual(
    events.map((event) => event.documentKey._id),
    [11, 13]
  );
  assert.deepEqual(Object.keys(events[0]), ["_id", "documentKey"]);
}

async function transactions(client, database) {
  const stream = await opened(database.watch([], { maxAwaitTimeMS: 1 }));
  await client.withSession(async (session) => {
    await session.withTransaction(async () => {
      await database.collection("orders").insertOne({ _id: 20 }, { session });
      await database.collection("stock").insertOne({ _id: 21 }, { session });
      assert.equal(await database.collection("stock").countDocuments({ _id: 21 }), 0);
      assert.equal(await database.collection("stock").countDocuments({ _id: 21 }, { session }), 1);
    });
    session.startTransaction();
    await database.collection("orders").insertOne({ _id: 22 }, { session });
    await session.abortTransaction();
  });
  await database.collection("orders").insertOne({ _id: 23 });
  const events = await take(stream, 3);
  await stream.close();
  assert.deepEqual(
    events.map((event) => event.documentKey._id),
    [20, 21, 23]
  );
  assert.ok(events[0].clusterTime.eq(events[1].clusterTime));
  assert.deepEqual(events[0].lsid, events[1].lsid);
  assert.equal(events[2].txnNumber, undefined);
}

async function conflicts(client, database) {
  const orders = database.collection("orders");
  const [first, second] = [client.startSession(), client.startSession()];
  first.startTransaction();
  second.startTransaction();
  await orders.updateOne({ _id: 23 }, { $set: { by: 1 } }, { session: first });
  await assert.rejects(
    () => orders.updateOne({ _id: 23 }, { $set: { by: 2 } }, { session: second }),
    (error) => error.code === 112 && error.hasErrorLabel("TransientTransactionError")
  );
  await first.commitTransaction();
  assert.equal((await orders.findOne({ _id: 23 })).by, 1);
  await first.endSession();
  await second.endSession();
}

async function lostConnection(client, database) {
  const orders = database.collection("orders");
  const stream = await opened(orders.watch([], { maxAwaitTimeMS: 1 }));
  await client.db("admin").command({
    configureFailPoint: "failCommand",
    mode: { times: 1 },
    data: { failCommands: ["getMore"], closeConnection: true },
  });
  await orders.insertOne({ _id: 30 });
  assert.deepEqual((await stream.next()).documentKey, { _id: 30 });
  await stream.close();
}

// Resume after the first event, after a drop, and after a rename.
async function resuming(database) {
  const test = database.collection("test");
  const stream = await opened(test.watch([], { maxAwaitTimeMS: 1 }));
  await test.insertOne({ sample: "test1" });
  await test.insertOne({ sample: "test2" });
  const [first, second] = await take(stream, 2);
  for (const option of ["resumeAfter", "startAfter"]) {
    const resumed = test.watch([], { [option]: first._id, ...WAIT });
    assert.deepEqual(await resumed.next(), second);
    await resumed.close();
  }
  await test.drop();
  const [drop, invalidate] = await take(stream, 2);
  assert.deepEqual(types([drop, invalidate]), ["drop", "invalidate"]);
  await assert.rejects(() => stream.next());
  assert.ok(stream.closed);
  await test.insertOne({ sample: "again" });
  await refused(260, async () => {
    const wrong = test.watch([], { resumeAfter: invalidate._id, ...WAIT });
    try {
      await wrong.next();
    } finally {
      await wrong.close();
    }
  });
  const behindDrop = test.watch([], { startAfter: invalidate._id, ...WAIT });
  const again = await behindDrop.next();
  assert.equal(again.fullDocument.sample, "again");

  await test.rename("newTest");
  await test.insertOne({ sample: "testAfterRename" });
  const [rename, invalidated] = await take(behindDrop, 2);
  assert.deepEqual(types([rename, invalidated]), ["rename", "invalidate"]);
  assert.deepEqual(rename.to, { db: databaseName, coll: "newTest" });
  await behindDrop.close();
  const behindRename = test.watch([], { startAfter: invalidated._id, ...WAIT });
  const last = await behindRename.next();
  assert.equal(last.fullDocument.sample, "testAfterRename");
  await behindRename.close();
  return [first, second, drop, again, rename, last];
}

// The driver's other ways to read a stream: as an iterator and as an emitter of events.
async function iteration(client, database) {
  const orders = database.collection("orders");
  const stream = client.watch([{ $match: { "ns.coll": "orders" } }], { maxAwaitTimeMS: 100 });
  const seen = new Promise((resolve, reject) => {
    stream.once("change", resolve);
    stream.once("error", reject);
  });
  await new Promise((resolve) => stream.cursor.once("init", resolve));
  await orders.insertOne({ _id: 40 });
  assert.equal((await seen).documentKey._id, 40);
  await stream.close();
  const found = [];
  for await (const document of orders.find({ _id: { $gte: 10 } }, { batchSize: 2 }).sort({ _id: 1 })) {
    found.push(document._id);
  }
  assert.deepEqual(found, [10, 11, 12, 13, 20, 23, 30, 40]);
}

async function main() {
  const client = new MongoClient(uri, { serverSelectionTimeoutMS: 10_000, compressors: ["zlib"] });
  try {
    await client.connect();
    const database = client.db(databaseName);
    const events = [...(await writesAndEvents(database))];
    await pipelines(database);
    await transactions(client, database);
    await conflicts(client, database);
    await lostConnection(client, database);
    const resumed = await resuming(database);
    await iteration(client, database);
    const tokens = [...events, ...resumed].map((event) => event._id._data);
    process.stdout.write(JSON.stringify({ tokens }) + "\n");
  } finally {
    await client.close();
  }
}

main().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
