'use strict';
// What the checks share: clients that are closed after each check, short words for common steps, calls to the web port.
const http = require('http');
const Pulsar = require('pulsar-client');

const CHECK_MS = 60000;
const RECEIVE_MS = 10000;
const SILENCE_MS = 1200;

Pulsar.Client.setLogHandler((level, file, line, text) => {
  if (level >= Pulsar.LogLevel.WARN) process.stderr.write(`${file}:${line} ${text}\n`);
});

class Scene {
  constructor(url, webUrl, name) {
    this.url = url;
    this.webUrl = webUrl;
    this.name = name;
    this.clients = [];
    this.made = 0;
    this.main = this.another();
  }

  another(options = {}) {
    const made = new Pulsar.Client({ serviceUrl: this.url, operationTimeoutSeconds: 10, ...options });
    this.clients.push(made);
    return made;
  }

  short() {
    this.made += 1;
    return `${this.name}-${process.pid}-${Date.now()}-${this.made}`;
  }

  topic(domain = 'persistent') {
    return `${domain}://public/default/${this.short()}`;
  }

  producer(topic, options = {}) {
    return this.main.createProducer({ topic, batchingEnabled: false, sendTimeoutMs: 20000, ...options });
  }

  consumer(topic, options = {}) {
    return this.main.subscribe({
      topic, subscription: 'sub', subscriptionInitialPosition: 'Earliest', ackTimeoutMs: 0, ...options,
    });
  }

  reader(topic, options = {}) {
    return this.main.createReader({ topic, startMessageId: Pulsar.MessageId.earliest(), ...options });
  }

  async filled(topic, count, options = {}) {
    const producer = await this.producer(topic, options);
    await sendAll(producer, texts(count));
    await producer.close();
  }

  admin(method, path, body) {
    return new Promise((resolve, reject) => {
      const text = body === undefined ? '' : JSON.stringify(body);
      const headers = { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(text) };
      const request = http.request(`${this.webUrl}/admin/v2/${path}`, { method, headers }, (answer) => {
        let said = '';
        answer.on('data', (chunk) => { said += chunk; });
        answer.on('end', () => {
          if (answer.statusCode >= 400) reject(new Error(`${method} ${path}: ${answer.statusCode} ${said}`));
          else resolve(said === '' ? null : JSON.parse(said));
        });
      });
      request.on('error', reject);
      request.end(text);
    });
  }

  async close() {
    await Promise.allSettled(this.clients.map((client) => client.close()));
  }
}

function texts(count, prefix = 'm') {
  return Array.from({ length: count }, (_, at) => `${prefix}${at}`);
}

async function sendAll(producer, contents) {
  const sent = contents.map((content) => producer.send(
    typeof content === 'string' ? { data: Buffer.from(content) } : content,
  ));
  await producer.flush();
  return Promise.all(sent);
}

const textOf = (message) => message.getData().toString();

async function take(consumer, count, { ack = true, each = textOf, wait = RECEIVE_MS } = {}) {
  const taken = [];
  for (let at = 0; at < count; at += 1) {
    const message = await consumer.receive(wait).catch((error) => {
      throw new Error(`${error.message} after ${taken.length} of ${count}: ${taken.slice(-5)}`);
    });
    taken.push(each(message));
    if (ack) await consumer.acknowledge(message);
  }
  return taken;
}

// Returns the messages that still come, until none comes for a moment.
async function rest(consumer, { ack = true, each = textOf, wait = SILENCE_MS } = {}) {
  const taken = [];
  for (;;) {
    const message = await consumer.receive(wait).catch(() => null);
    if (message === null) return taken;
    taken.push(each(message));
    if (ack) await consumer.acknowledge(message);
  }
}

function same(actual, expected, what = '') {
  const [is, should] = [JSON.stringify(actual), JSON.stringify(expected)];
  if (is !== should) throw new Error(`${what} is ${is.slice(0, 300)}, should be ${should.slice(0, 300)}`);
}

function truth(condition, what) {
  if (!condition) throw new Error(what);
}

// `kind` is the end of the client's message, which is the name of the C++ library's result.
async function refused(promise, kind) {
  let outcome;
  try {
    await promise;
  } catch (error) {
    outcome = error.message;
  }
  if (outcome === undefined) throw new Error(`was not refused; should be ${kind}`);
  if (!outcome.endsWith(`: ${kind}`)) throw new Error(`refused with "${outcome}", should be ${kind}`);
}

const pause = (milliseconds) => new Promise((resolve) => { setTimeout(resolve, milliseconds); });

async function until(condition, what, milliseconds = RECEIVE_MS) {
  const deadline = Date.now() + milliseconds;
  while (!(await condition())) {
    if (Date.now() > deadline) throw new Error(`not within ${milliseconds} ms: ${what}`);
    await pause(50);
  }
}

function murmur3(text) {
  const bytes = Buffer.from(text);
  const spread = (word) => Math.imul(((Math.imul(word, 0xcc9e2d51) << 15) | (Math.imul(word, 0xcc9e2d51) >>> 17)), 0x1b873593);
  let hash = 0;
  const whole = bytes.length - (bytes.length % 4);
  for (let at = 0; at < whole; at += 4) {
    hash ^= spread(bytes.readInt32LE(at));
    hash = Math.imul((hash << 13) | (hash >>> 19), 5) + 0xe6546b64;
  }
  let tail = 0;
  for (let at = bytes.length - 1; at >= whole; at -= 1) tail = (tail << 8) | bytes[at];
  if (whole < bytes.length) hash ^= spread(tail);
  hash ^= bytes.length;
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) & 0x7fffffff;
}

function javaHash(text) {
  let hash = 0;
  for (const byte of Buffer.from(text)) hash = (Math.imul(hash, 31) + byte) | 0;
  return hash & 0x7fffffff;
}

// Prints one line for each check; a failure's text is on the same line.
async function run(url, webUrl, checks, wanted) {
  for (const [name, check] of Object.entries(checks)) {
    if (wanted.length > 0 && !wanted.includes(name)) continue;
    const scene = new Scene(url, webUrl, name);
    let timer;
    const late = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error(`not done in ${CHECK_MS} ms`)), CHECK_MS);
    });
    let said = 'ok';
    try {
      await Promise.race([check(scene), late]);
    } catch (error) {
      said = String(error.message).replace(/\s+/g, ' ');
    }
    clearTimeout(timer);
    process.stdout.write(`${name}=${said}\n`);
    await Promise.race([scene.close(), pause(5000)]);
  }
}

module.exports = {
  Pulsar, Scene, texts, textOf, sendAll, take, rest, same, truth, refused, pause, until, murmur3, javaHash, run,
};
