'use strict';
// Checks of who may connect on which port, and what each role may do. Arguments: the URLs (plain, TLS, HTTPS), a folder
// of keys, tokens, and the name of a namespace where alice may produce and bob may consume.
const {
  Pulsar, Scene, texts, sendAll, take, same, truth, refused,
} = require('./tools');

const [url, tlsUrl, httpsUrl, folder, namespace] = process.argv.slice(2);
const { alice, bob, admin, brief, forged } = JSON.parse(process.env.CHECK_TOKENS);
const token = (text) => new Pulsar.AuthenticationToken({ token: text });
const trusted = { tlsTrustCertsFilePath: `${folder}/authority.pem`, operationTimeoutSeconds: 4 };
const topicOf = (scene) => `persistent://${namespace}/${scene.short()}`;
const scene = () => new Scene(url, '', 'secure');
const checks = {};

async function both(here, producing, consuming = producing) {
  const topic = topicOf(here);
  const consumer = await here.another(consuming).subscribe({ topic, subscription: 's', subscriptionInitialPosition: 'Earliest' });
  const producer = await here.another(producing).createProducer({ topic });
  await sendAll(producer, texts(5));
  same(await take(consumer, 5), texts(5));
}

checks.token = (here) => both(here, { authentication: token(alice) }, { authentication: token(bob) });

checks.token_supplied = (here) => both(
  here,
  { authentication: new Pulsar.AuthenticationToken({ token: () => alice }) },
  { authentication: new Pulsar.AuthenticationToken({ token: async () => bob }) },
);

checks.token_over_tls = (here) => both(here, { serviceUrl: tlsUrl, ...trusted, authentication: token(admin) });

checks.token_over_https = (here) => both(here, { serviceUrl: httpsUrl, ...trusted, authentication: token(admin) });

checks.certificate = (here) => both(here, {
  serviceUrl: tlsUrl,
  ...trusted,
  tlsValidateHostname: true,
  authentication: new Pulsar.AuthenticationTls({
    certificatePath: `${folder}/admin.cert.pem`, privateKeyPath: `${folder}/admin.key.pem`,
  }),
});

checks.password = (here) => both(here, {
  authentication: new Pulsar.AuthenticationBasic({ username: 'dave', password: 'pass:word' }),
});

checks.token_renewed = async (here) => {
  let asked = 0;
  const client = here.another({
    authentication: new Pulsar.AuthenticationToken({
      token: () => {
        asked += 1;
        return asked === 1 ? brief : alice;
      },
    }),
  });
  const producer = await client.createProducer({ topic: topicOf(here) });
  const end = Date.now() + 9000;
  while (Date.now() < end) {
    await producer.send({ data: Buffer.from('still in') });
    await new Promise((resolve) => { setTimeout(resolve, 200); });
  }
  truth(asked >= 2, `asked ${asked} times`);
};

checks.may_not_produce = (here) => refused(
  here.another({ authentication: token(bob) }).createProducer({ topic: topicOf(here) }), 'AuthorizationError',
);

checks.may_not_consume = (here) => refused(
  here.another({ authentication: token(alice) }).subscribe({ topic: topicOf(here), subscription: 's' }), 'AuthorizationError',
);

checks.may_not_read = (here) => refused(
  here.another({ authentication: token(alice) }).createReader({ topic: topicOf(here), startMessageId: Pulsar.MessageId.earliest() }),
  'AuthorizationError',
);

// Until it is authenticated, the client takes any answer for a lost connection and tries again.
for (const [name, options] of Object.entries({
  forged_token: { authentication: token(forged) },
  wrong_password: { authentication: new Pulsar.AuthenticationBasic({ username: 'dave', password: 'word' }) },
  untrusted_server: { serviceUrl: tlsUrl, authentication: token(admin), operationTimeoutSeconds: 4 },
  unknown_certificate: {
    serviceUrl: tlsUrl,
    ...trusted,
    authentication: new Pulsar.AuthenticationTls({
      certificatePath: `${folder}/stranger.cert.pem`, privateKeyPath: `${folder}/stranger.key.pem`,
    }),
  },
})) {
  checks[name] = async (here) => {
    const client = here.another({ operationTimeoutSeconds: 4, ...options });
    const outcome = await client.createProducer({ topic: topicOf(here) }).then(() => 'let in', (error) => error.message);
    truth(/: (ConnectError|AuthenticationError|AuthorizationError|TimeOut|Disconnected|Retryable)$/.test(outcome), outcome);
  };
}

(async () => {
  for (const [name, check] of Object.entries(checks)) {
    const here = scene();
    const said = await check(here).then(() => 'ok', (error) => String(error.message).replace(/\s+/g, ' '));
    process.stdout.write(`${name}=${said}\n`);
    await here.close();
  }
  process.exit(0);
})();
