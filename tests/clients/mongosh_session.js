// mongosh on a replica set: insert, watch, transact, drop, resume.
//
// Each step has its own checks; the tokens of the events are printed as one JSON document.
"use strict";

// Not the strict one: objects of mongosh have other prototypes.
const assert = require("node:assert");

const shop = db.getSiblingDB(process.env.TAILRACE_DATABASE);

function take(cursor, count) {
  const events = [];
  while (events.length < count) {
    const event = cursor.tryNext();
    if (event !== null) events.push(event);
  }
  return events;
}

const types = (events) => events.map((event) => event.operationType);

function codeOf(action) {
  try {
    action();
  } catch (error) {
    return error.code;
  }
  return undefined;
}

// -- what mongosh shows of a server --------------------------------------------------------------------
if (db.hello().msg === "isdbgrid") {
  assert.equal(codeOf(() => rs.status()), 59);
} else {
  assert.equal(db.hello().setName, "rs0");
  assert.equal(rs.status().members[0].stateStr, "PRIMARY");
}
assert.ok(db.version());
assert.ok(db.serverStatus().connections.current >= 1);

// -- resumeAfter -------------------------------------------------------------------------------------------
let cursor = shop.test.watch();
shop.test.insertOne({ sample: "test1" });
shop.test.insertOne({ sample: "test2" });
const [first, second] = take(cursor, 2);
assert.deepEqual(types([first, second]), ["insert", "insert"]);
assert.equal(first.fullDocument.sample, "test1");
for (const resumed of [
  shop.test.watch([], { resumeAfter: first._id }),
  shop.test.watch({ resumeAfter: first._id }),
  shop.test.watch([], { startAfter: first._id }),
]) {
  assert.deepEqual(EJSON.stringify(take(resumed, 1)[0]), EJSON.stringify(second));
  resumed.close();
}

// -- invalidate --------------------------------------------------------------------------------------------
shop.test.drop();
const [drop, invalidate] = take(cursor, 2);
assert.deepEqual(types([drop, invalidate]), ["drop", "invalidate"]);
assert.ok(cursor.isClosed());
assert.equal(
  codeOf(() => shop.test.watch([], { resumeAfter: invalidate._id }).tryNext()),
  260
);

// -- startAfter --------------------------------------------------------------------------------------------
cursor = shop.test.watch([], { startAfter: invalidate._id });
shop.test.insertOne({ sample: "test" });
shop.test.renameCollection("newTest");
shop.test.insertOne({ sample: "testAfterRename" });
const renamed = take(cursor, 3);
assert.deepEqual(types(renamed), ["insert", "rename", "invalidate"]);
cursor = shop.test.watch([], { startAfter: renamed[2]._id });
const [last] = take(cursor, 1);
assert.equal(last.fullDocument.sample, "testAfterRename");
cursor.close();
assert.deepEqual([...shop.getCollectionNames()].sort(), ["newTest", "test"]);

// -- databases, transactions, other commands ---------------------------------------------------------------
cursor = shop.watch([{ $match: { operationType: { $in: ["insert", "update"] } } }]);
const session = db.getMongo().startSession();
session.withTransaction(() => {
  const own = session.getDatabase(shop.getName());
  own.orders.insertOne({ _id: 1 });
  own.stock.insertOne({ _id: 1, left: 3 });
});
session.startTransaction();
session.getDatabase(shop.getName()).orders.insertOne({ _id: 2 });
session.abortTransaction();
session.endSession();
shop.stock.updateOne({ _id: 1 }, { $inc: { left: -1 } });
const written = take(cursor, 3);
assert.deepEqual(types(written), ["insert", "insert", "update"]);
assert.deepEqual(written[2].updateDescription.updatedFields, { left: 2 });
cursor.close();
assert.equal(shop.orders.countDocuments(), 1);
assert.deepEqual(shop.stock.aggregate([{ $group: { _id: null, left: { $sum: "$left" } } }]).toArray(), [
  { _id: null, left: 2 },
]);
shop.stock.createIndex({ left: 1 }, { unique: true });
assert.equal(
  codeOf(() => shop.stock.insertOne({ left: 2 })),
  11000
);

const seen = [first, second, drop, ...renamed.slice(0, 2), last, ...written];
print(JSON.stringify({ tokens: seen.map((event) => event._id._data) }));
