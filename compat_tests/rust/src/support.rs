//! What the checks share: clients, topics of their own, receiving with a deadline, and the driver outside.

use std::io::BufRead;
use std::time::Duration;

use futures::StreamExt;
use pulsar::consumer::{InitialPosition, Message};
use pulsar::error::{ConnectionError, ConsumerError, ProducerError, ServiceDiscoveryError};
use pulsar::message::proto::{CommandSendReceipt, MessageIdData};
use pulsar::reader::Reader;
use pulsar::{
    Consumer, ConsumerOptions, Error, OperationRetryOptions, Producer, ProducerOptions, Pulsar, SerializeMessage,
    SubType, TokioExecutor,
};

pub type Client = Pulsar<TokioExecutor>;
pub type Incoming = Consumer<String, TokioExecutor>;
pub type Received = Message<String>;
pub type Checked = Result<(), Box<dyn std::error::Error + Send + Sync>>;
pub type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

pub const SOON: Duration = Duration::from_secs(10);
pub const QUIET: Duration = Duration::from_millis(700);

/// A server and a client of it. The client retries nothing, so failures come at once.
#[derive(Clone)]
pub struct Scene {
    pub url: String,
    pub web: String,
    pub client: Client,
}

pub fn retries() -> OperationRetryOptions {
    OperationRetryOptions {
        operation_timeout: Duration::from_secs(10),
        retry_delay: Duration::from_millis(200),
        max_retries: Some(0),
    }
}

pub async fn connect(url: &str) -> Outcome<Client> {
    Ok(Pulsar::builder(url, TokioExecutor).with_operation_retry_options(retries()).build().await?)
}

/// The same scene with a client that retries, as it does by default.
pub async fn patient(scene: &Scene) -> Outcome<Scene> {
    let options = OperationRetryOptions {
        operation_timeout: Duration::from_secs(30),
        retry_delay: Duration::from_millis(200),
        max_retries: Some(100),
    };
    let client = Pulsar::builder(&scene.url, TokioExecutor).with_operation_retry_options(options).build().await?;
    Ok(Scene { client, ..scene.clone() })
}

pub fn topic(name: &str) -> String {
    format!("persistent://public/default/rust-{name}")
}

pub fn earliest() -> ConsumerOptions {
    ConsumerOptions::default().with_initial_position(InitialPosition::Earliest)
}

impl Scene {
    pub async fn producer(&self, topic: &str) -> Outcome<Producer<TokioExecutor>> {
        self.producer_with(topic, ProducerOptions::default()).await
    }

    pub async fn producer_with(&self, topic: &str, options: ProducerOptions) -> Outcome<Producer<TokioExecutor>> {
        Ok(self.client.producer().with_topic(topic).with_options(options).build().await?)
    }

    /// Returns a consumer of the subscription "s" from the topic's beginning.
    pub async fn consumer(&self, topic: &str, kind: SubType) -> Outcome<Incoming> {
        self.consumer_with(topic, "s", kind, earliest()).await
    }

    pub async fn consumer_with(
        &self,
        topic: &str,
        subscription: &str,
        kind: SubType,
        options: ConsumerOptions,
    ) -> Outcome<Incoming> {
        let builder = self.client.consumer().with_topic(topic).with_subscription(subscription);
        Ok(builder.with_subscription_type(kind).with_options(options).build().await?)
    }

    pub async fn reader(&self, topic: &str, options: ConsumerOptions) -> Outcome<Reader<String, TokioExecutor>> {
        Ok(self.client.reader().with_topic(topic).with_options(options).into_reader().await?)
    }
}

pub async fn send<M: SerializeMessage + Sized>(
    producer: &mut Producer<TokioExecutor>,
    message: M,
) -> Outcome<CommandSendReceipt> {
    Ok(producer.send_non_blocking(message).await?.await?)
}

/// Sends PREFIX0, PREFIX1, … and returns their ids once all are acknowledged.
pub async fn send_numbered(
    producer: &mut Producer<TokioExecutor>,
    prefix: &str,
    count: usize,
) -> Outcome<Vec<MessageIdData>> {
    let mut waiting = Vec::new();
    for number in 0..count {
        waiting.push(producer.send_non_blocking(format!("{prefix}{number}")).await?);
    }
    let mut ids = Vec::new();
    for each in waiting {
        ids.push(each.await?.message_id.ok_or("a receipt without an id")?);
    }
    Ok(ids)
}

pub fn numbered(prefix: &str, numbers: impl IntoIterator<Item = usize>) -> Vec<String> {
    numbers.into_iter().map(|number| format!("{prefix}{number}")).collect()
}

pub async fn receive(consumer: &mut Incoming) -> Outcome<Received> {
    match tokio::time::timeout(SOON, consumer.next()).await {
        Ok(Some(message)) => Ok(message?),
        Ok(None) => Err("the stream of messages ended".into()),
        Err(_) => Err("no message came".into()),
    }
}

pub async fn read(reader: &mut Reader<String, TokioExecutor>) -> Outcome<Received> {
    match tokio::time::timeout(SOON, reader.next()).await {
        Ok(Some(message)) => Ok(message?),
        Ok(None) => Err("the stream of messages ended".into()),
        Err(_) => Err("no message came".into()),
    }
}

pub fn text(message: &Received) -> Outcome<String> {
    Ok(message.deserialize()?)
}

/// Receives and acknowledges this many messages, and returns their texts in the order of arrival.
pub async fn take(consumer: &mut Incoming, count: usize) -> Outcome<Vec<String>> {
    let mut texts = Vec::new();
    for _ in 0..count {
        let message = receive(consumer).await.map_err(|error| format!("{error} after {texts:?}"))?;
        texts.push(text(&message)?);
        consumer.ack(&message).await?;
    }
    Ok(texts)
}

pub async fn nothing_comes(consumer: &mut Incoming) -> Checked {
    match tokio::time::timeout(QUIET, consumer.next()).await {
        Err(_) => Ok(()),
        Ok(Some(Ok(message))) => Err(format!("{:?} came too", text(&message)?).into()),
        Ok(other) => Err(format!("the stream said {:?}", other.map(|each| each.err())).into()),
    }
}

/// Returns once the server has read what was sent before, since acknowledgements themselves have no answer.
pub async fn settle(consumer: &mut Incoming) -> Checked {
    Ok(consumer.check_connection().await?)
}

pub fn same<T: PartialEq + std::fmt::Debug>(seen: T, wanted: T) -> Checked {
    if seen == wanted {
        return Ok(());
    }
    Err(format!("{seen:?} instead of {wanted:?}").into())
}

pub fn ensure(holds: bool, what: impl Into<String>) -> Checked {
    if holds {
        return Ok(());
    }
    Err(what.into().into())
}

/// Returns the server's name for its error.
pub fn kind_of(error: &Error) -> String {
    let connection = match error {
        Error::ServiceDiscovery(ServiceDiscoveryError::Query(Some(kind), _)) => return kind.as_str_name().to_owned(),
        Error::Connection(inner)
        | Error::Consumer(ConsumerError::Connection(inner))
        | Error::Producer(ProducerError::Connection(inner))
        | Error::ServiceDiscovery(ServiceDiscoveryError::Connection(inner)) => inner,
        other => return format!("{other}"),
    };
    match connection {
        ConnectionError::PulsarError(Some(kind), _) => kind.as_str_name().to_owned(),
        other => format!("{other:?}"),
    }
}

/// Checks that something was refused, with this error.
pub fn refused<T>(result: Result<T, Error>, kind: &str) -> Checked {
    match result {
        Ok(_) => Err("was not refused".into()),
        Err(error) => same(kind_of(&error), kind.to_owned()),
    }
}

/// Asks whoever runs this program to do something to the server, and waits until it is done.
pub async fn please(what: String) -> Checked {
    tokio::task::spawn_blocking(move || {
        println!("please {what}");
        let mut answer = String::new();
        std::io::stdin().lock().read_line(&mut answer)?;
        same(answer.trim().to_owned(), "done".to_owned())
    })
    .await?
}
