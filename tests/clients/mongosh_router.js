// mongosh on a router: shard a collection, list placement, move a range, watch all shards.
"use strict";

const assert = require("node:assert");

const shop = db.getSiblingDB(process.env.TAILRACE_DATABASE);
const config = db.getSiblingDB("config");
const ns = `${shop.getName()}.orders`;

function take(cursor, count) {
  const events = [];
  while (events.length < count) {
    const event = cursor.tryNext();
    if (event !== null) events.push(event);
  }
  return events;
}

assert.equal(sh.enableSharding(shop.getName(), "shard0").ok, 1);
assert.equal(sh.shardCollection(ns, { customer: 1 }).ok, 1);
assert.equal(sh.splitAt(ns, { customer: 50 }).ok, 1);
assert.equal(sh.moveChunk(ns, { customer: 50 }, "shard1").ok, 1);

const cursor = shop.orders.watch();
shop.orders.insertMany([...Array(100).keys()].map((customer) => ({ _id: customer, customer })));
const events = take(cursor, 100);
assert.deepEqual(
  events.map((event) => event.documentKey._id),
  [...Array(100).keys()]
);
cursor.close();

const stats = shop.orders.stats();
assert.equal(stats.sharded, true);
assert.equal(stats.count, 100);
assert.deepEqual(Object.keys(stats.shards).sort(), ["shard0", "shard1"]);
assert.ok(shop.orders.getShardDistribution());
assert.equal(shop.stats().objects, 100);
const status = sh.status();
assert.equal(status.value.shards.length, 2);
assert.ok(status.value.databases.some((found) => found.database._id === shop.getName()));
assert.equal(sh.getBalancerState(), false);
const { uuid } = config.collections.findOne({ _id: ns });
assert.equal(config.chunks.countDocuments({ uuid }), 2);
assert.deepEqual(
  shop.orders.getIndexes().map((index) => index.name),
  ["_id_", "customer_1"]
);
assert.equal(shop.orders.find({ customer: { $gte: 48, $lt: 52 } }).sort({ customer: -1 }).toArray()[0].customer, 51);
shop.orders.drop();
assert.equal(config.collections.countDocuments({ _id: ns }), 0);

print(JSON.stringify({ tokens: events.map((event) => event._id._data) }));
