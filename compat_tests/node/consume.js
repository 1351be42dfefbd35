'use strict';
// Checks of what consumers and readers do.
const {
  Pulsar, texts, textOf, sendAll, take, rest, same, truth, refused, pause, until, murmur3,
} = require('./tools');

const checks = {};
const keyed = (key, content) => ({ data: Buffer.from(content), partitionKey: key });
const sorted = (list) => [...list].sort((one, other) => Number(one.slice(1)) - Number(other.slice(1)));

checks.exclusive_is_busy = async (scene) => {
  const topic = scene.topic();
  const first = await scene.consumer(topic);
  await refused(scene.another().subscribe({ topic, subscription: 'sub' }), 'ConsumerBusy');
  await refused(scene.another().subscribe({ topic, subscription: 'sub', subscriptionType: 'Shared' }), 'ConsumerBusy');
  await first.close();
  await scene.consumer(topic);
};

checks.failover = async (scene) => {
  const topic = scene.topic();
  const options = { subscriptionType: 'Failover', receiverQueueSize: 5 };
  const consumers = [];
  for (const consumerName of ['a', 'b']) consumers.push(await scene.consumer(topic, { ...options, consumerName }));
  await pause(1500);
  await scene.filled(topic, 20);
  const stats = await scene.admin('GET', `${topic.replace('://', '/')}/stats`);
  const active = stats.subscriptions.sub.activeConsumerName === 'a' ? 0 : 1;
  same(await take(consumers[active], 8), texts(8), 'the active one');
  same(await rest(consumers[1 - active]), [], 'the other one');
  await consumers[active].close();
  same(await take(consumers[1 - active], 12), texts(20).slice(8), 'the successor');
};

checks.shared = async (scene) => {
  const topic = scene.topic();
  const options = { subscriptionType: 'Shared', receiverQueueSize: 2 };
  const consumers = [await scene.consumer(topic, options), await scene.consumer(topic, options)];
  await scene.filled(topic, 40);
  const got = await Promise.all(consumers.map((consumer) => rest(consumer)));
  truth(got.every((each) => each.length >= 5), `shares ${got.map((each) => each.length)}`);
  same(sorted(got.flat()), texts(40), 'together');
};

checks.key_shared = async (scene) => {
  for (const producing of [{}, { batchingEnabled: true, batchingType: 'KeyBasedBatching', batchingMaxPublishDelayMs: 50 }]) {
    const topic = scene.topic();
    const options = { subscriptionType: 'KeyShared' };
    const consumers = [];
    for (const consumerName of ['a', 'b', 'c']) consumers.push(await scene.consumer(topic, { ...options, consumerName }));
    const producer = await scene.producer(topic, producing);
    await sendAll(producer, texts(300).map((text, at) => keyed(`key-${at % 30}`, text)));
    const each = (message) => [message.getPartitionKey(), textOf(message)];
    const got = await Promise.all(consumers.map((consumer) => rest(consumer, { each })));
    same(got.flat().length, 300, 'messages');
    truth(got.every((share) => share.length > 0), 'each has a share');
    const owners = new Map();
    got.forEach((share, owner) => share.forEach(([key]) => owners.set(key, (owners.get(key) ?? new Set()).add(owner))));
    truth([...owners.values()].every((set) => set.size === 1), 'one owner a key');
    for (const share of got) {
      for (const key of new Set(share.map(([name]) => name))) {
        const mine = share.filter(([name]) => name === key).map(([, text]) => text);
        same(mine, sorted(mine), 'order of a key');
      }
    }
  }
};

checks.key_shared_sticky = async (scene) => {
  const topic = scene.topic();
  const subscribe = (start, end) => scene.consumer(topic, {
    subscriptionType: 'KeyShared', keySharedPolicy: { keyShareMode: 'Sticky', stickyRanges: [{ start, end }] },
  });
  const low = await subscribe(0, 20000);
  const high = await subscribe(20001, 65535);
  await refused(subscribe(100, 200), 'ResultConsumerAssignError');
  await refused(scene.consumer(topic, { subscriptionType: 'KeyShared' }), 'ConsumerBusy');
  const producer = await scene.producer(topic);
  const keys = texts(100, 'key-');
  await sendAll(producer, keys.map((key) => keyed(key, key)));
  const isLow = (key) => murmur3(key) % 65536 <= 20000;
  same(await rest(low), keys.filter(isLow), 'the low range');
  same(await rest(high), keys.filter((key) => !isLow(key)), 'the high range');
};

checks.ordering_key_before_key = async (scene) => {
  const topic = scene.topic();
  const options = { subscriptionType: 'KeyShared' };
  const consumers = [await scene.consumer(topic, options), await scene.consumer(topic, options)];
  const producer = await scene.producer(topic);
  await sendAll(producer, texts(60).map((text, at) => ({ ...keyed(`k${at}`, text), orderingKey: 'one' })));
  const got = await Promise.all(consumers.map((consumer) => rest(consumer)));
  same(got.map((share) => share.length).sort((one, other) => one - other), [0, 60]);
  same(got.flat(), texts(60));
};

checks.negative_acknowledgement = async (scene) => {
  for (const batchingEnabled of [true, false]) {
    const topic = scene.topic();
    const consumer = await scene.consumer(topic, { subscriptionType: 'Shared', nAckRedeliverTimeoutMs: 300 });
    await scene.filled(topic, 3, { batchingEnabled });
    const counts = [];
    for (let round = 0; round < 3; round += 1) {
      for (let at = 0; at < 3; at += 1) {
        const message = await consumer.receive(5000);
        counts.push(message.getRedeliveryCount());
        if (round < 2) consumer.negativeAcknowledge(message);
        else await consumer.acknowledge(message);
      }
    }
    same(counts, [0, 0, 0, 1, 1, 1, 2, 2, 2], `batched ${batchingEnabled}`);
    same(await rest(consumer), []);
  }
};

checks.acknowledgement_timeout = async (scene) => {
  const topic = scene.topic();
  const consumer = await scene.consumer(topic, { subscriptionType: 'Shared', ackTimeoutMs: 10000 });
  await scene.filled(topic, 2);
  const first = await take(consumer, 2, { ack: false });
  same(first, texts(2));
  same(sorted(await take(consumer, 2, { wait: 25000 })), texts(2));
};

checks.dead_letters = async (scene) => {
  const topic = scene.topic();
  const deadLetterTopic = `${topic}-graves`;
  const consumer = await scene.consumer(topic, {
    subscriptionType: 'Shared',
    nAckRedeliverTimeoutMs: 200,
    deadLetterPolicy: { deadLetterTopic, maxRedeliverCount: 2, initialSubscriptionName: 'mourner' },
  });
  const producer = await scene.producer(topic);
  await producer.send({ ...keyed('k', 'poison'), properties: { p: '1' } });
  await producer.send({ data: Buffer.from('good') });
  const seen = [];
  for (;;) {
    const message = await consumer.receive(2500).catch(() => null);
    if (message === null) break;
    seen.push(textOf(message));
    if (textOf(message) === 'good') await consumer.acknowledge(message);
    else consumer.negativeAcknowledge(message);
  }
  same(seen.filter((text) => text === 'poison').length, 3, 'deliveries');
  const mourner = await scene.consumer(deadLetterTopic, { subscription: 'mourner', subscriptionInitialPosition: 'Latest' });
  const grave = await mourner.receive(5000);
  same([textOf(grave), grave.getPartitionKey(), grave.getProperties().p], ['poison', 'k', '1']);
};

checks.cumulative = async (scene) => {
  for (const batchingEnabled of [true, false]) {
    const topic = scene.topic();
    let consumer = await scene.consumer(topic, { batchIndexAckEnabled: true });
    await scene.filled(topic, 10, { batchingEnabled, batchingMaxPublishDelayMs: 100 });
    const messages = await take(consumer, 10, { ack: false, each: (message) => message });
    await consumer.acknowledgeCumulative(messages[3]);
    await consumer.close();
    consumer = await scene.consumer(topic, { batchIndexAckEnabled: true });
    same(await rest(consumer), texts(10).slice(4), `batched ${batchingEnabled}`);
  }
};

checks.batch_index = async (scene) => {
  const topic = scene.topic();
  let consumer = await scene.consumer(topic, { subscriptionType: 'Shared', batchIndexAckEnabled: true });
  await scene.filled(topic, 10, { batchingEnabled: true, batchingMaxPublishDelayMs: 100 });
  const messages = await take(consumer, 10, { ack: false, each: (message) => message });
  for (const at of [0, 2, 4, 9]) await consumer.acknowledgeId(messages[at].getMessageId());
  await consumer.close();
  consumer = await scene.consumer(topic, { subscriptionType: 'Shared', batchIndexAckEnabled: true });
  same(await rest(consumer), ['m1', 'm3', 'm5', 'm6', 'm7', 'm8']);
};

checks.backlog_in_stats = async (scene) => {
  const topic = scene.topic();
  const consumer = await scene.consumer(topic);
  await scene.filled(topic, 5);
  await take(consumer, 2);
  await until(async () => (await scene.admin('GET', `${topic.replace('://', '/')}/stats`)).subscriptions.sub.msgBacklog === 3,
    'a backlog of 3');
};

checks.seek = async (scene) => {
  for (const batchingEnabled of [true, false]) {
    const topic = scene.topic();
    const consumer = await scene.consumer(topic);
    await scene.filled(topic, 5, { batchingEnabled });
    await pause(300);
    const middle = Date.now();
    await pause(300);
    const producer = await scene.producer(topic, { batchingEnabled });
    await sendAll(producer, texts(5, 'n'));
    const messages = await take(consumer, 10, { each: (message) => message });
    await consumer.seek(messages[2].getMessageId());
    const again = await rest(consumer);
    same(again, [...texts(5).slice(again.length === 7 ? 3 : 2), ...texts(5, 'n')], `from an id, batched ${batchingEnabled}`);
    await consumer.seekTimestamp(middle);
    same(await rest(consumer), texts(5, 'n'), 'from a time');
    await consumer.seek(Pulsar.MessageId.earliest());
    same((await rest(consumer)).length, 10, 'from the start');
    await consumer.seek(Pulsar.MessageId.latest());
    same(await rest(consumer), [], 'from the end');
    await producer.send({ data: Buffer.from('new') });
    same(await take(consumer, 1), ['new']);
  }
};

checks.unsubscribe = async (scene) => {
  const topic = scene.topic();
  const path = topic.replace('://', '/');
  const shared = { subscriptionType: 'Shared' };
  const first = await scene.consumer(topic, shared);
  const second = await scene.consumer(topic, shared);
  await refused(first.unsubscribe(), 'BrokerMetadataError');
  await second.close();
  await first.unsubscribe();
  same(await scene.admin('GET', `${path}/subscriptions`), []);
};

checks.listener = async (scene) => {
  const topic = scene.topic();
  const heard = [];
  await scene.consumer(topic, {
    listener: (message, consumer) => {
      heard.push(textOf(message));
      consumer.acknowledge(message);
    },
  });
  await scene.filled(topic, 100, { batchingEnabled: true });
  await until(() => heard.length >= 100, 'all heard');
  same(heard, texts(100));
};

checks.batch_receive = async (scene) => {
  const topic = scene.topic();
  const consumer = await scene.consumer(topic, { batchReceivePolicy: { maxNumMessages: 7, timeoutMs: 1000 } });
  await scene.filled(topic, 20);
  const got = [];
  while (got.length < 20) {
    const batch = await consumer.batchReceive();
    truth(batch.length <= 7, `${batch.length} at once`);
    for (const message of batch) await consumer.acknowledge(message);
    got.push(...batch.map(textOf));
  }
  same(got, texts(20));
};

checks.queue_of_one = async (scene) => {
  const topic = scene.topic();
  const consumers = [];
  for (const at of [0, 1]) consumers.push(await scene.consumer(topic, { subscriptionType: 'Shared', receiverQueueSize: 1, consumerName: `c${at}` }));
  await scene.filled(topic, 30);
  const got = await Promise.all(consumers.map((consumer) => rest(consumer)));
  same(sorted(got.flat()), texts(30));
};

checks.queue_of_none = async (scene) => {
  const topic = scene.topic();
  const consumer = await scene.consumer(topic, { receiverQueueSize: 0 });
  await scene.filled(topic, 10);
  same(await Promise.all(texts(10).map(async () => {
    const message = await consumer.receive();
    await consumer.acknowledge(message);
    return textOf(message);
  })).then(sorted), texts(10));
};

checks.reader = async (scene) => {
  for (const batchingEnabled of [true, false]) {
    const topic = scene.topic();
    const producer = await scene.producer(topic, { batchingEnabled });
    const ids = await sendAll(producer, texts(10));
    const all = async (startMessageId) => {
      const reader = await scene.main.createReader({ topic, startMessageId });
      const got = [];
      while (reader.hasNext()) got.push(textOf(await reader.readNext(5000)));
      await reader.close();
      return got;
    };
    same(await all(Pulsar.MessageId.earliest()), texts(10), 'from the start');
    same(await all(Pulsar.MessageId.latest()), [], 'from the end');
    same(await all(ids[4]), texts(10).slice(5), `behind an id, batched ${batchingEnabled}`);
    same(await all(Pulsar.MessageId.deserialize(ids[8].serialize())), ['m9'], 'behind a stored id');
    const reader = await scene.reader(topic);
    await reader.seek(ids[6]);
    same(textOf(await reader.readNext(5000)), 'm7', 'after a seek');
    await reader.seekTimestamp(Date.now() + 1000);
    same(reader.hasNext(), false, 'in the future');
    await producer.send({ data: Buffer.from('late') });
    same(textOf(await reader.readNext(5000)), 'late');
  }
};

checks.reader_of_nothing = async (scene) => {
  const reader = await scene.reader(scene.topic());
  same(reader.hasNext(), false, 'has one');
};

checks.compacted = async (scene) => {
  const topic = scene.topic();
  const path = topic.replace('://', '/');
  const consumer = await scene.consumer(topic, { readCompacted: true });
  await consumer.close();
  const producer = await scene.producer(topic, { batchingEnabled: true });
  await sendAll(producer, texts(20).map((text, at) => keyed(`k${at % 4}`, text)));
  await producer.send(keyed('k1', ''));
  await scene.admin('PUT', `${path}/compaction`);
  await until(async () => (await scene.admin('GET', `${path}/compaction`)).status === 'SUCCESS', 'compacted');
  await sendAll(producer, [keyed('k0', 'after')]);
  const again = await scene.consumer(topic, { readCompacted: true, subscription: 'compact' });
  same(await rest(again), ['m16', 'm18', 'm19', 'after']);
  const reader = await scene.reader(topic, { readCompacted: true });
  same(textOf(await reader.readNext(5000)), 'm16');
};

module.exports = checks;
if (require.main === module) {
  const { run } = require('./tools');
  const [url, webUrl, ...wanted] = process.argv.slice(2);
  run(url, webUrl, checks, wanted).then(() => process.exit(0));
}
