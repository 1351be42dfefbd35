'use strict';
// Produces and consumes while the server is killed and started again. It prints `started` when messages flow, and then
// counts receipts and messages: each message comes at least once, in order.
const {
  Scene, same, truth, pause, textOf,
} = require('./tools');

const COUNT = 6000;
const PACE = 20;
const [url] = process.argv.slice(2);

async function producing(producer, numbers, confirmed) {
  const waiting = [];
  for (const number of numbers) {
    waiting.push(producer.send({ data: Buffer.from(`${number}`), partitionKey: `k${number % 5}` }).then(() => confirmed.push(number)));
    if (number % PACE === 0) await pause(20);
    if (number === 500) process.stdout.write('started=ok\n');
  }
  await Promise.all(waiting);
}

async function consuming(consumer, count) {
  const got = [];
  const seen = new Set();
  while (seen.size < count) {
    const message = await consumer.receive(30000);
    const number = Number(textOf(message));
    if (!seen.has(number)) got.push(number);
    seen.add(number);
    await consumer.acknowledge(message).catch(() => {});
  }
  return got;
}

async function check(scene, batchingEnabled) {
  const topic = scene.topic();
  const consumer = await scene.consumer(topic);
  const late = await scene.consumer(topic, { subscription: 'late' });
  await late.close();
  const producer = await scene.producer(topic, { batchingEnabled, sendTimeoutMs: 60000, maxPendingMessages: COUNT });
  const numbers = Array.from({ length: COUNT }, (_, at) => at);
  const confirmed = [];
  const [got] = await Promise.all([consuming(consumer, COUNT), producing(producer, numbers, confirmed)]);
  // The client does not settle its promises in the order of the receipts.
  same(confirmed.sort((one, other) => one - other), numbers, 'receipts');
  same(got, numbers, 'what came');
  same(await consuming(await scene.consumer(topic, { subscription: 'late' }), COUNT), numbers, 'what is there');
  truth(producer.isConnected(), 'connected again');
}

(async () => {
  const scene = new Scene(url, '', 'killed');
  const said = await check(scene, process.argv[3] === 'batched').then(() => 'ok', (error) => error.message);
  process.stdout.write(`killed=${said}\n`);
  await Promise.race([scene.close(), pause(5000)]);
  process.exit(0);
})();
