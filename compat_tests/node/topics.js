'use strict';
// Checks of partitions, many topics at once, schemas, and what a server refuses.
const {
  Pulsar, texts, textOf, sendAll, take, rest, same, truth, refused, until, pause, murmur3, javaHash,
} = require('./tools');

const checks = {};
const sorted = (list) => [...list].sort();
const partitionOf = (name) => Number(name.split('-partition-')[1]);

async function spread(scene, topic, partitions) {
  await scene.admin('PUT', `${topic.replace('://', '/')}/partitions`, partitions);
}

for (const [scheme, hash] of [['Murmur3_32Hash', murmur3], ['JavaStringHash', javaHash]]) {
  checks[`routing_${scheme.toLowerCase()}`] = async (scene) => {
    const topic = scene.topic();
    await spread(scene, topic, 4);
    same(await scene.main.getPartitionsForTopic(topic), [0, 1, 2, 3].map((at) => `${topic}-partition-${at}`));
    const consumer = await scene.consumer(topic);
    const producer = await scene.producer(topic, { hashingScheme: scheme });
    const keys = texts(40, 'key-');
    await sendAll(producer, keys.map((key) => ({ data: Buffer.from(key), partitionKey: key })));
    const each = (message) => `${textOf(message)} ${partitionOf(message.getTopicName())}`;
    same(sorted(await take(consumer, 40, { each })), sorted(keys.map((key) => `${key} ${hash(key) % 4}`)));
  };
}

checks.routing_by_turns = async (scene) => {
  const topic = scene.topic();
  await spread(scene, topic, 3);
  const consumer = await scene.consumer(topic, { subscriptionType: 'Shared' });
  const producer = await scene.producer(topic, { messageRoutingMode: 'RoundRobinDistribution' });
  await sendAll(producer, texts(30));
  const counts = [0, 0, 0];
  await take(consumer, 30, { each: (message) => { counts[partitionOf(message.getTopicName())] += 1; } });
  same(counts, [10, 10, 10]);
};

checks.routing_of_ones_own = async (scene) => {
  const topic = scene.topic();
  await spread(scene, topic, 3);
  const consumer = await scene.consumer(topic);
  const producer = await scene.producer(topic, {
    messageRoutingMode: 'CustomPartition',
    messageRouter: (message, { numPartitions }) => (Number(message.getPartitionKey()) * 2) % numPartitions,
  });
  for (let at = 0; at < 12; at += 1) await producer.send({ data: Buffer.from(`${(at * 2) % 3}`), partitionKey: `${at}` });
  const each = (message) => Number(textOf(message)) === partitionOf(message.getTopicName());
  same(new Set(await take(consumer, 12, { each })).has(false), false);
};

checks.partitions_read_one_by_one = async (scene) => {
  const topic = scene.topic();
  await spread(scene, topic, 2);
  const producer = await scene.producer(topic, { messageRoutingMode: 'RoundRobinDistribution' });
  await sendAll(producer, texts(10));
  const got = [];
  for (const at of [0, 1]) got.push(...await rest(await scene.consumer(`${topic}-partition-${at}`)));
  same(sorted(got), sorted(texts(10)));
  const reader = await scene.reader(topic);
  const read = [];
  while (reader.hasNext()) read.push(textOf(await reader.readNext(5000)));
  same(sorted(read), sorted(texts(10)), 'by a reader');
};

checks.partitions_seek = async (scene) => {
  const topic = scene.topic();
  await spread(scene, topic, 3);
  const consumer = await scene.consumer(topic);
  await scene.filled(topic, 30, { messageRoutingMode: 'RoundRobinDistribution' });
  await take(consumer, 30);
  await consumer.seekTimestamp(Date.now() - 60000);
  same((await rest(consumer)).length, 30);
  await consumer.seek(Pulsar.MessageId.latest());
  same(await rest(consumer), []);
  await consumer.unsubscribe();
};

checks.many_topics = async (scene) => {
  const topics = [scene.topic(), scene.topic(), scene.topic()];
  const consumer = await scene.main.subscribe({ topics, subscription: 'sub', subscriptionInitialPosition: 'Earliest' });
  for (const [at, topic] of topics.entries()) await scene.filled(topic, 5, { producerName: `p${at}` });
  const each = (message) => message.getTopicName();
  same(sorted(await take(consumer, 15, { each })), sorted(topics.flatMap((topic) => Array(5).fill(topic))));
  await consumer.unsubscribe();
};

checks.pattern = async (scene) => {
  const stem = scene.topic();
  const mine = [`${stem}-one`, `${stem}-two`];
  for (const topic of [...mine, `${stem}_other`]) await scene.filled(topic, 3);
  await spread(scene, `${stem}-parts`, 2);
  await scene.filled(`${stem}-parts`, 4, { messageRoutingMode: 'RoundRobinDistribution' });
  const consumer = await scene.main.subscribe({
    topicsPattern: `${stem}-.*`, subscription: 'sub', subscriptionInitialPosition: 'Earliest',
  });
  const got = await rest(consumer, { each: (message) => message.getTopicName().slice(stem.length) });
  same(sorted(got), sorted([...Array(3).fill('-one'), ...Array(3).fill('-two'), '-parts-partition-0', '-parts-partition-0', '-parts-partition-1', '-parts-partition-1']));
};

checks.pattern_of_both_kinds = async (scene) => {
  const name = scene.short();
  for (const domain of ['persistent', 'non-persistent']) await scene.producer(`${domain}://public/default/${name}-${domain}`);
  const consumer = await scene.main.subscribe({
    topicsPattern: `persistent://public/default/${name}-.*`, subscription: 'sub', regexSubscriptionMode: 'AllTopics',
  });
  for (const domain of ['persistent', 'non-persistent']) await scene.filled(`${domain}://public/default/${name}-${domain}`, 1);
  const each = (message) => message.getTopicName().split(':')[0];
  same(sorted(await take(consumer, 2, { each })), ['non-persistent', 'persistent']);
};

const record = (...fields) => JSON.stringify({ type: 'record', name: 'Order', fields });
const number = { name: 'id', type: 'int' };

for (const [schemaType, schema] of [
  ['String', ''], ['Bytes', ''], ['Json', record(number)], ['Avro', record(number)], ['Boolean', ''],
  ['Int8', ''], ['Int16', ''], ['Int32', ''], ['Int64', ''], ['Float32', ''], ['Float64', ''],
]) {
  checks[`schema_${schemaType.toLowerCase()}`] = async (scene) => {
    const topic = scene.topic();
    const info = { name: 'of-a-check', schemaType, schema, properties: { since: '1' } };
    const consumer = await scene.consumer(topic, { schema: info });
    const producer = await scene.producer(topic, { schema: info });
    await producer.send({ data: Buffer.from('{"id":1}') });
    same(await take(consumer, 1), ['{"id":1}']);
    const again = await scene.consumer(topic, { schema: info, subscription: 'again' });
    same(await take(again, 1), ['{"id":1}']);
    await scene.producer(topic);
    if (!['String', 'Json', 'Avro'].includes(schemaType)) return; // the client does not send other schemas to the server
    const kept = await scene.admin('GET', `schemas/${topic.split('://')[1]}/schema`);
    same(kept.version, 0, 'version');
    const other = schemaType === 'String' ? { name: 'o', schemaType: 'Json', schema: record(number) } : { name: 'o', schemaType: 'String', schema: '' };
    await refused(scene.producer(topic, { schema: other }), 'IncompatibleSchema');
    await refused(scene.consumer(topic, { schema: other, subscription: 'other' }), 'IncompatibleSchema');
  };
}

checks.schema_grows = async (scene) => {
  for (const schemaType of ['Json', 'Avro']) {
    const topic = scene.topic();
    const of = (...fields) => ({ name: 'order', schemaType, schema: record(...fields) });
    await scene.producer(topic, { schema: of(number) });
    await scene.producer(topic, { schema: of(number, { name: 'note', type: ['null', 'string'], default: null }) });
    await refused(scene.producer(topic, { schema: of(number, { name: 'must', type: 'string' }) }), 'IncompatibleSchema');
    const kept = await scene.admin('GET', `schemas/${topic.split('://')[1]}/schemas`);
    same(kept.getSchemaResponses.map(({ version }) => version), [0, 1], schemaType);
    const wrong = scene.producer(topic, { schema: { name: 'order', schemaType, schema: '{"type":' } });
    await refused(wrong, 'IncompatibleSchema').catch((error) => {
      if (!/InvalidSchema|IncompatibleSchema|Metadata/.test(error.message)) throw error;
    });
  }
};

checks.topic_not_found = async (scene) => {
  const topic = `persistent://public/sealed/${scene.short()}`;
  await scene.admin('POST', 'namespaces/public/sealed/autoTopicCreation', { allowAutoTopicCreation: false });
  await scene.admin('POST', 'namespaces/public/sealed/encryptionRequired', false);
  try {
    await refused(scene.producer(topic), 'TopicNotFound');
    await refused(scene.consumer(topic), 'TopicNotFound');
    await refused(scene.reader(topic), 'TopicNotFound');
    await scene.admin('PUT', topic.replace('://', '/'));
    await scene.filled(topic, 2);
    same(await rest(await scene.consumer(topic)), texts(2));
  } finally {
    await scene.admin('DELETE', 'namespaces/public/sealed/autoTopicCreation');
  }
};

checks.subscription_not_found = async (scene) => {
  const topic = `persistent://public/sealed/${scene.short()}`;
  await scene.admin('POST', 'namespaces/public/sealed/autoSubscriptionCreation', { allowAutoSubscriptionCreation: false });
  try {
    await scene.producer(topic);
    // The client repeats its request after this error until its timeout.
    const impatient = scene.another({ operationTimeoutSeconds: 2 });
    await refused(impatient.subscribe({ topic, subscription: 'sub' }), 'TimeOut');
    await scene.admin('PUT', `${topic.replace('://', '/')}/subscription/sub`, { ledgerId: -1, entryId: -1 });
    await scene.consumer(topic);
  } finally {
    await scene.admin('DELETE', 'namespaces/public/sealed/autoSubscriptionCreation');
  }
};

checks.bad_names = async (scene) => {
  const impatient = scene.another({ operationTimeoutSeconds: 2 });
  await refused(impatient.createProducer({ topic: 'persistent://one/two' }), 'InvalidTopicName');
  await refused(impatient.createProducer({ topic: 'persistent://nobody/nothing/topic' }), 'TopicNotFound');
  await refused(impatient.subscribe({ topic: 'persistent://public/nothing/topic', subscription: 's' }), 'TopicNotFound');
};

checks.limits = async (scene) => {
  const topic = scene.topic();
  const path = topic.replace('://', '/');
  await scene.producer(topic);
  const first = await scene.consumer(topic, { subscriptionType: 'Shared' });
  await scene.admin('POST', `${path}/maxProducers`, 1);
  await scene.admin('POST', `${path}/maxConsumers`, 1);
  await until(async () => await scene.admin('GET', `${path}/maxConsumers`) === 1, 'kept');
  await pause(500);
  await refused(scene.producer(topic), 'ProducerBusy');
  await refused(scene.consumer(topic, { subscriptionType: 'Shared' }), 'ConsumerBusy');
  await first.close();
  await scene.consumer(topic, { subscriptionType: 'Shared' });
};

checks.kind_of_subscription_forbidden = async (scene) => {
  const topic = scene.topic();
  await scene.producer(topic);
  await scene.admin('POST', `${topic.replace('://', '/')}/subscriptionTypesEnabled`, ['Exclusive', 'Failover']);
  await pause(500);
  await refused(scene.consumer(topic, { subscriptionType: 'Shared' }), 'ResultNotAllowedError');
  await scene.consumer(topic, { subscriptionType: 'Failover' });
};

checks.terminated = async (scene) => {
  const topic = scene.topic();
  const producer = await scene.producer(topic);
  await sendAll(producer, texts(3));
  const { entryId } = await scene.admin('POST', `${topic.replace('://', '/')}/terminate`);
  same(entryId, 2);
  await refused(producer.send({ data: Buffer.from('late') }), 'TopicTerminated');
  await refused(scene.producer(topic), 'TopicTerminated');
  same(await rest(await scene.consumer(topic)), texts(3));
};

checks.deleted_and_made_anew = async (scene) => {
  const topic = scene.topic();
  const path = topic.replace('://', '/');
  await scene.filled(topic, 3);
  await scene.admin('DELETE', path);
  await scene.filled(topic, 2);
  same(await rest(await scene.consumer(topic)), texts(2));
  await refused(scene.admin('DELETE', path), '412').catch((error) => truth(/: 412 /.test(error.message), error.message));
  const producer = await scene.producer(topic);
  await scene.admin('DELETE', `${path}?force=true`);
  await producer.send({ data: Buffer.from('goes on') });
};

checks.unloaded = async (scene) => {
  const topic = scene.topic();
  const consumer = await scene.consumer(topic);
  const producer = await scene.producer(topic);
  for (let round = 0; round < 3; round += 1) {
    const sent = sendAll(producer, texts(200, `r${round}-`));
    await scene.admin('PUT', `${topic.replace('://', '/')}/unload`);
    await sent;
    const got = await rest(consumer, { wait: 1500 });
    same([...new Set(got)], texts(200, `r${round}-`), 'each once, in order');
  }
};

module.exports = checks;
if (require.main === module) {
  const { run } = require('./tools');
  const [url, webUrl, ...wanted] = process.argv.slice(2);
  run(url, webUrl, checks, wanted).then(() => process.exit(0));
}
