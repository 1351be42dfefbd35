'use strict';
// A producer, a consumer, a reader and a refusal over WebSockets, as a page or a script writes them. The same text runs
// in Node with the package ws and in a browser: `talk` is given the class and returns what went wrong, or "ok".
async function talk(WebSocketClass, base, place) {
  const encode = (text) => btoa(text);
  const decode = (text) => atob(text);

  function open(path) {
    return new Promise((resolve, reject) => {
      const socket = new WebSocketClass(`${base}/ws/v2/${path}`);
      const heard = [];
      const waiting = [];
      socket.onmessage = (event) => {
        const message = JSON.parse(event.data);
        if (waiting.length > 0) waiting.shift()(message);
        else heard.push(message);
      };
      socket.onopen = () => resolve({
        say: (message) => socket.send(JSON.stringify(message)),
        hear: () => (heard.length > 0 ? Promise.resolve(heard.shift())
          : new Promise((found) => { waiting.push(found); })),
        ended: new Promise((found) => { socket.onclose = (event) => found(event.code); }),
        close: () => socket.close(1000),
      });
      socket.onerror = (event) => reject(new Error(event.message || 'refused'));
    });
  }

  const same = (is, should, what) => {
    if (JSON.stringify(is) !== JSON.stringify(should)) {
      throw new Error(`${what}: ${JSON.stringify(is)}, should be ${JSON.stringify(should)}`);
    }
  };

  try {
    const count = 200;
    const consumer = await open(`consumer/${place}/sub?subscriptionType=Shared&negativeAckRedeliveryDelay=200`);
    const producer = await open(`producer/${place}?batchingEnabled=true`);
    for (let at = 0; at < count; at += 1) {
      producer.say({ payload: encode(`m${at}`), context: `${at}`, properties: { at: `${at}` }, key: 'k' });
    }
    const ids = [];
    for (let at = 0; at < count; at += 1) {
      const answer = await producer.hear();
      same([answer.result, answer.context], ['ok', `${at}`], 'the answer');
      ids.push(answer.messageId);
    }
    for (let at = 0; at < count; at += 1) {
      const message = await consumer.hear();
      same([decode(message.payload), message.properties, message.key], [`m${at}`, { at: `${at}` }, 'k'], 'the message');
      if (at < count - 1) consumer.say({ messageId: message.messageId });
      else consumer.say({ type: 'negativeAcknowledge', messageId: message.messageId });
    }
    const again = await consumer.hear();
    same([decode(again.payload), again.redeliveryCount], [`m${count - 1}`, 1], 'the message that came again');
    const reader = await open(`reader/${place}?messageId=${encodeURIComponent(ids[count - 3])}`);
    for (const at of [count - 2, count - 1]) {
      const message = await reader.hear();
      same(decode(message.payload), `m${at}`, 'what the reader gets');
      reader.say({ messageId: message.messageId });
    }
    producer.say({ payload: '***' });
    same((await producer.hear()).result, 'send-error:7', 'the answer to a bad payload');
    let refusal = 'opened';
    await open(`producer/${place}?compressionType=Nope`).catch(() => { refusal = 'refused'; });
    same(refusal, 'refused', 'a query that makes no sense');
    for (const socket of [producer, consumer, reader]) {
      socket.close();
      same(await socket.ended, 1000, 'the code of the close frame');
    }
    return 'ok';
  } catch (error) {
    return String(error.message || error);
  }
}

if (typeof module !== 'undefined' && require.main === module) {
  const WebSocketClass = require('ws');
  const [base, place] = process.argv.slice(2);
  talk(WebSocketClass, base, place).then((said) => { process.stdout.write(`${said}\n`); process.exit(0); });
}
