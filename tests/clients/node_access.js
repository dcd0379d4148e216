// The Node.js driver with a user who may read: what it can do, as one JSON document. Run with the connection string.
"use strict";

const { MongoClient } = require("mongodb");

const [uri, databaseName] = process.argv.slice(2);

async function codeOf(work) {
  try {
    await work();
    return null;
  } catch (error) {
    return error.code;
  }
}

async function main() {
  const client = new MongoClient(uri);
  try {
    const database = client.db(databaseName);
    const orders = database.collection("orders");
    const found = await orders.countDocuments();
    const status = await client.db("admin").command({ connectionStatus: 1 });
    const watch = async (stream) => {
      await stream.tryNext();
      await stream.close();
    };
    return {
      user: status.authInfo.authenticatedUsers[0].user,
      found,
      insert: await codeOf(() => orders.insertOne({})),
      watch: await codeOf(() => watch(client.watch())),
      stream: await codeOf(() => watch(orders.watch([], { maxAwaitTimeMS: 50 }))),
    };
  } catch (error) {
    return { error: error.code };
  } finally {
    await client.close();
  }
}

main().then((seen) => console.log(JSON.stringify(seen)));
