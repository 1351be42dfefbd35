'use strict';
// Checks of what producers do.
const crypto = require('crypto');
const {
  texts, textOf, sendAll, take, rest, same, truth, refused, pause, until,
} = require('./tools');

const checks = {};

for (const compressionType of ['None', 'Zlib', 'LZ4', 'ZSTD', 'SNAPPY']) {
  checks[`compression_${compressionType.toLowerCase()}`] = async (scene) => {
    for (const batchingEnabled of [true, false]) {
      const topic = scene.topic();
      const consumer = await scene.consumer(topic);
      const producer = await scene.producer(topic, { compressionType, batchingEnabled, batchingMaxPublishDelayMs: 20 });
      const contents = texts(50, 'a text that repeats itself, itself, itself ');
      await sendAll(producer, contents);
      same(await take(consumer, 50), contents, `batched ${batchingEnabled}`);
    }
  };
}

checks.one_by_one = async (scene) => {
  const topic = scene.topic();
  const consumer = await scene.consumer(topic);
  const producer = await scene.producer(topic, { batchingEnabled: true });
  const ids = [];
  for (const content of texts(10)) ids.push((await producer.send({ data: Buffer.from(content) })).toString());
  const got = await take(consumer, 10, { each: (message) => message.getMessageId().toString() });
  same(got, ids, 'the ids that were promised');
};

checks.empty_message = async (scene) => {
  const topic = scene.topic();
  const consumer = await scene.consumer(topic);
  for (const batchingEnabled of [true, false]) {
    const producer = await scene.producer(topic, { batchingEnabled });
    await producer.send({ data: Buffer.alloc(0), properties: { mode: `${batchingEnabled}` } });
    same(await take(consumer, 1, { each: (message) => [message.getData().length, message.getProperties().mode] }),
      [[0, `${batchingEnabled}`]]);
    await producer.close();
  }
};

checks.metadata = async (scene) => {
  for (const batchingEnabled of [true, false]) {
    const topic = scene.topic();
    const consumer = await scene.consumer(topic);
    const producer = await scene.producer(topic, { batchingEnabled, producerName: `writer-${batchingEnabled}` });
    const before = Date.now();
    await producer.send({
      data: Buffer.from([0, 255, 128, 10]),
      properties: { colour: 'blü', empty: '' },
      partitionKey: 'schlüssel',
      orderingKey: 'order-7',
      eventTimestamp: 1234567890123,
      sequenceId: 77,
    });
    const message = await consumer.receive(5000);
    same([...message.getData()], [0, 255, 128, 10], 'data');
    same({ ...message.getProperties() }, { colour: 'blü', empty: '' }, 'properties');
    same([message.getPartitionKey(), message.getOrderingKey()], ['schlüssel', 'order-7'], 'keys');
    same([message.getEventTimestamp(), message.getRedeliveryCount()], [1234567890123, 0], 'numbers');
    same([message.getTopicName(), message.getProducerName()], [topic, `writer-${batchingEnabled}`], 'names');
    truth(Math.abs(message.getPublishTimestamp() - before) < 5000, 'publish time');
    same(message.isReplicated(), false, 'replicated');
    truth(producer.isConnected() && consumer.isConnected(), 'connected');
    same(producer.getTopic(), topic);
  }
};

checks.deduplication = async (scene) => {
  const topic = scene.topic();
  const path = topic.replace('://', '/');
  const consumer = await scene.consumer(topic);
  await scene.admin('POST', `${path}/deduplicationEnabled`, true);
  await until(async () => (await scene.admin('GET', `${path}/stats`)).deduplicationStatus === 'Enabled', 'it is on');
  const numbered = (sequenceId) => ({ data: Buffer.from(`n${sequenceId}`), sequenceId });
  let producer = await scene.producer(topic, { producerName: 'once' });
  await sendAll(producer, [1, 2, 3].map(numbered));
  await sendAll(producer, [2, 3, 4].map(numbered));
  await producer.close();
  producer = await scene.producer(topic, { producerName: 'once', batchingEnabled: true });
  // A producer that gives no sequence ids continues behind the last one that the server knows.
  await sendAll(producer, ['next']);
  await sendAll(producer, [6, 7].map(numbered));
  same(await rest(consumer), ['n1', 'n2', 'n3', 'n4', 'next', 'n6', 'n7']);
};

checks.chunks = async (scene) => {
  const topic = scene.topic();
  const consumer = await scene.consumer(topic, { nAckRedeliverTimeoutMs: 300 });
  const producer = await scene.producer(topic, { chunkingEnabled: true, compressionType: 'LZ4' });
  const data = crypto.randomBytes(12 * 1024 * 1024);
  await producer.send({ data: Buffer.from('before') });
  const id = await producer.send({ data, properties: { kind: 'large' } });
  await producer.send({ data: Buffer.from('small') });
  const before = await consumer.receive(10000);
  const large = await consumer.receive(20000);
  truth(large.getData().equals(data), `other bytes: ${large.getData().length}`);
  same({ ...large.getProperties() }, { kind: 'large' });
  same(large.getMessageId().toString(), id.toString(), 'id');
  same(await take(consumer, 1), ['small']);
  // The client begins behind the message that it sought.
  await consumer.seek(before.getMessageId());
  truth((await consumer.receive(20000)).getData().equals(data), 'after the seek');
  same(await take(consumer, 1), ['small']);
};

checks.too_large = async (scene) => {
  const topic = scene.topic();
  const consumer = await scene.consumer(topic);
  const producer = await scene.producer(topic);
  await refused(producer.send({ data: Buffer.alloc(5 * 1024 * 1024 + 1) }), 'MessageTooBig');
  await producer.send({ data: Buffer.alloc(5 * 1024 * 1024 - 1000, 1) });
  await producer.send({ data: Buffer.from('still here') });
  same(await take(consumer, 2, { each: (message) => message.getData().length }), [5 * 1024 * 1024 - 1000, 10]);
};

checks.queue_full = async (scene) => {
  const producer = await scene.producer(scene.topic(), {
    maxPendingMessages: 10, blockIfQueueFull: false, batchingEnabled: true, batchingMaxPublishDelayMs: 200,
  });
  const outcomes = await Promise.allSettled(texts(50).map((text) => producer.send({ data: Buffer.from(text) })));
  const refusals = outcomes.filter(({ status }) => status === 'rejected').map(({ reason }) => reason.message);
  truth(refusals.length > 0 && refusals.length < 50, `${refusals.length} refusals`);
  truth(refusals.every((text) => text.endsWith('ProducerQueueIsFull')), refusals[0]);
};

checks.many_in_flight = async (scene) => {
  const topic = scene.topic();
  const consumer = await scene.consumer(topic);
  const producer = await scene.producer(topic, {
    maxPendingMessages: 100, blockIfQueueFull: true, batchingEnabled: true, batchingMaxPublishDelayMs: 1,
  });
  const contents = texts(5000);
  const all = sendAll(producer, contents);
  same(await take(consumer, 5000), contents);
  await all;
};

checks.delivered_later = async (scene) => {
  const topic = scene.topic();
  const consumer = await scene.consumer(topic, { subscriptionType: 'Shared' });
  const producer = await scene.producer(topic);
  const began = Date.now();
  await producer.send({ data: Buffer.from('after'), deliverAfter: 2000 });
  await producer.send({ data: Buffer.from('at'), deliverAt: began + 1000 });
  await producer.send({ data: Buffer.from('now') });
  const times = {};
  same(await take(consumer, 3, {
    each: (message) => {
      times[textOf(message)] = Date.now() - began;
      return textOf(message);
    },
  }), ['now', 'at', 'after']);
  truth(times.at >= 990 && times.after >= 1990, `too early: ${JSON.stringify(times)}`);
  truth(times.at < 4000 && times.after < 6000, `too late: ${JSON.stringify(times)}`);
};

checks.access_exclusive = async (scene) => {
  const topic = scene.topic();
  const first = await scene.producer(topic, { accessMode: 'Exclusive' });
  await refused(scene.producer(topic, { accessMode: 'Exclusive' }), 'ResultProducerFenced');
  await refused(scene.producer(topic), 'ProducerBusy');
  await first.send({ data: Buffer.from('mine') });
  await first.close();
  const shared = await scene.producer(topic);
  await refused(scene.producer(topic, { accessMode: 'Exclusive' }), 'ResultProducerFenced');
  await shared.send({ data: Buffer.from('ours') });
};

checks.access_wait = async (scene) => {
  const topic = scene.topic();
  const first = await scene.producer(topic, { accessMode: 'Exclusive', producerName: 'first' });
  let granted = false;
  const waiting = scene.another().createProducer({ topic, accessMode: 'WaitForExclusive', producerName: 'second' })
    .then((producer) => {
      granted = true;
      return producer;
    });
  await pause(1000);
  same(granted, false, 'granted while the first is there');
  await first.close();
  const second = await waiting;
  await second.send({ data: Buffer.from('at last') });
};

checks.access_fencing = async (scene) => {
  const topic = scene.topic();
  const first = await scene.producer(topic, { accessMode: 'Exclusive' });
  await first.send({ data: Buffer.from('before') });
  const second = await scene.another().createProducer({ topic, accessMode: 'ExclusiveWithFencing' });
  await second.send({ data: Buffer.from('mine') });
  await refused(first.send({ data: Buffer.from('lost') }), 'ResultProducerFenced');
  const consumer = await scene.consumer(topic);
  same(await rest(consumer), ['before', 'mine']);
};

checks.name_taken = async (scene) => {
  const topic = scene.topic();
  const first = await scene.producer(topic, { producerName: 'same' });
  await refused(scene.another().createProducer({ topic, producerName: 'same' }), 'ProducerBusy');
  await first.close();
  await scene.producer(topic, { producerName: 'same' });
};

checks.made_up_names_differ = async (scene) => {
  const topic = scene.topic();
  const names = await Promise.all([1, 2, 3].map(async () => (await scene.producer(topic)).getProducerName()));
  same(new Set(names).size, 3, names.join());
};

checks.properties_in_stats = async (scene) => {
  const topic = scene.topic();
  await scene.producer(topic, { properties: { role: 'writer' }, producerName: 'shown' });
  await scene.consumer(topic, { properties: { role: 'taker' }, consumerName: 'shown-too' });
  const stats = await scene.admin('GET', `${topic.replace('://', '/')}/stats`);
  same(stats.publishers.map(({ producerName, metadata }) => [producerName, metadata]), [['shown', { role: 'writer' }]]);
  same(stats.subscriptions.sub.consumers.map(({ consumerName, metadata }) => [consumerName, metadata]),
    [['shown-too', { role: 'taker' }]]);
  truth(stats.publishers[0].clientVersion.startsWith('Pulsar'), stats.publishers[0].clientVersion);
};

checks.non_persistent = async (scene) => {
  const topic = scene.topic('non-persistent');
  const consumer = await scene.consumer(topic);
  const other = await scene.consumer(topic, { subscription: 'other', subscriptionType: 'Shared' });
  const producer = await scene.producer(topic);
  await sendAll(producer, texts(20));
  same(await take(consumer, 20), texts(20));
  same(await take(other, 20), texts(20));
};

checks.transaction_topics_are_plain = async (scene) => {
  // The client has no transactions; what it does with a topic of the coordinator must not break the server.
  const ids = await scene.main.getPartitionsForTopic('persistent://pulsar/system/transaction_coordinator_assign');
  truth(Array.isArray(ids), 'a list');
};

checks.encryption = async (scene) => {
  const topic = scene.topic();
  const folder = process.env.CHECK_KEYS;
  const consumer = await scene.consumer(topic, { privateKeyPath: `${folder}/private.pem` });
  const blind = await scene.consumer(topic, { subscription: 'blind', cryptoFailureAction: 'CONSUME' });
  const discarding = await scene.consumer(topic, { subscription: 'gone', cryptoFailureAction: 'DISCARD' });
  const producer = await scene.producer(topic, {
    publicKeyPath: `${folder}/public.pem`, encryptionKey: 'key-1', batchingEnabled: true, compressionType: 'ZSTD',
  });
  await sendAll(producer, texts(10));
  same(await take(consumer, 10), texts(10));
  const context = (await blind.receive(5000)).getEncryptionContext();
  same([context.keys.map(({ key }) => key), context.isDecryptionFailed], [['key-1'], true]);
  same(await rest(discarding), [], 'what cannot be read');
  await scene.admin('POST', 'namespaces/public/sealed/encryptionRequired', true);
  const sealed = `persistent://public/sealed/${scene.short()}`;
  await scene.producer(sealed, { publicKeyPath: `${folder}/public.pem`, encryptionKey: 'key-1' });
  // The client repeats its request after this error until its timeout.
  const impatient = scene.another({ operationTimeoutSeconds: 2 });
  await refused(impatient.createProducer({ topic: sealed }), 'TimeOut');
};

module.exports = checks;
if (require.main === module) {
  const { run } = require('./tools');
  const [url, webUrl, ...wanted] = process.argv.slice(2);
  run(url, webUrl, checks, wanted).then(() => process.exit(0));
}
