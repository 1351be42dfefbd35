//! Sending: with and without waiting, in batches, compressed, with all that a message can carry; names, modes, limits.

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pulsar::compression::{Compression, CompressionLz4, CompressionSnappy, CompressionZlib, CompressionZstd};
use pulsar::error::{ConnectionError, ProducerError};
use pulsar::producer::Message;
use pulsar::{Error, ProducerOptions, Pulsar, SubType, TokioExecutor};

use crate::support::*;

pub fn batches(size: u32) -> ProducerOptions {
    ProducerOptions { batch_size: Some(size), batch_timeout: Some(Duration::from_millis(50)), ..Default::default() }
}

pub fn compressions() -> [(&'static str, Compression); 5] {
    [
        ("none", Compression::None),
        ("lz4", Compression::Lz4(CompressionLz4::default())),
        ("zlib", Compression::Zlib(CompressionZlib::default())),
        ("zstd", Compression::Zstd(CompressionZstd::default())),
        ("snappy", Compression::Snappy(CompressionSnappy::default())),
    ]
}

pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as u64
}

pub async fn sent_and_received(scene: Scene) -> Checked {
    let topic = topic("simple");
    let mut producer = scene.producer(&topic).await?;
    let mut consumer = scene.consumer(&topic, SubType::Exclusive).await?;
    for number in 0..20u64 {
        let receipt = send(&mut producer, format!("m{number}")).await?;
        same(receipt.sequence_id, number)?;
    }
    same(take(&mut consumer, 20).await?, numbered("m", 0..20))?;
    producer.check_connection().await?;
    consumer.close().await?;
    producer.close().await?;
    Ok(())
}

pub async fn sent_without_waiting(scene: Scene) -> Checked {
    let topic = topic("pipelined");
    let options = ProducerOptions { block_queue_if_full: true, ..Default::default() };
    let mut producer = scene.producer_with(&topic, options).await?;
    let ids = send_numbered(&mut producer, "m", 2000).await?;
    let positions: Vec<_> = ids.iter().map(|id| (id.ledger_id, id.entry_id)).collect();
    ensure(positions.windows(2).all(|pair| pair[0] < pair[1]), "receipts out of order")?;
    let mut consumer = scene.consumer(&topic, SubType::Exclusive).await?;
    same(take(&mut consumer, 2000).await?, numbered("m", 0..2000))
}

pub async fn sent_by_the_client(scene: Scene) -> Checked {
    let topic = topic("lazy");
    for number in 0..3 {
        scene.client.send(&topic, format!("m{number}")).await?.await?;
    }
    let mut many = scene.client.producer().with_name("rust-many").build_multi_topic();
    many.send_non_blocking(&topic, "m3").await?.await?;
    many.send_non_blocking(format!("{topic}-2"), "m4").await?.await?;
    same(many.topics().len(), 2)?;
    many.close_producer(&topic).await?;
    let mut consumer = scene.consumer(&topic, SubType::Exclusive).await?;
    same(take(&mut consumer, 4).await?, numbered("m", 0..4))
}

pub async fn batched(scene: Scene) -> Checked {
    let topic = topic("batched");
    let mut producer = scene.producer_with(&topic, batches(10)).await?;
    let ids = send_numbered(&mut producer, "m", 25).await?;
    let indexes: Vec<_> = ids.iter().map(|id| id.batch_index.unwrap_or(-1)).collect();
    same(indexes[..20].to_vec(), (0..10).chain(0..10).collect())?;
    let mut consumer = scene.consumer(&topic, SubType::Shared).await?;
    for (number, id) in ids.iter().enumerate() {
        let message = receive(&mut consumer).await?;
        same(text(&message)?, format!("m{number}"))?;
        let seen = message.message_id();
        same((seen.ledger_id, seen.entry_id, seen.batch_index), (id.ledger_id, id.entry_id, id.batch_index))?;
        consumer.ack(&message).await?;
    }
    let options = ProducerOptions { batch_size: Some(1000), ..Default::default() };
    let mut patient = scene.producer_with(&topic, options).await?;
    let waiting = patient.send_all(["b0", "b1", "b2"]).await?;
    patient.send_batch().await?;
    for each in waiting {
        each.await?;
    }
    same(take(&mut consumer, 3).await?, numbered("b", 0..3))?;
    let options = ProducerOptions { batch_byte_size: Some(100), ..Default::default() };
    let mut by_size = scene.producer_with(&topic, options).await?;
    let waiting = by_size.send_non_blocking("x".repeat(200)).await?;
    waiting.await?;
    same(take(&mut consumer, 1).await?, vec!["x".repeat(200)])
}

pub async fn compressed(scene: Scene) -> Checked {
    for (name, compression) in compressions() {
        for batch_size in [None, Some(5)] {
            let topic = topic(&format!("compressed-{name}-{}", batch_size.unwrap_or(1)));
            let timeout = batch_size.map(|_| Duration::from_millis(50));
            let compression = Some(compression.clone());
            let options = ProducerOptions { compression, batch_size, batch_timeout: timeout, ..Default::default() };
            let mut producer = scene.producer_with(&topic, options).await?;
            let bodies: Vec<_> = (0..12).map(|number| format!("{number} ").repeat(number * 50)).collect();
            for waiting in producer.send_all(bodies.iter()).await? {
                waiting.await?;
            }
            let mut consumer = scene.consumer(&topic, SubType::Exclusive).await?;
            same(take(&mut consumer, 12).await.map_err(|error| format!("{topic}: {error}"))?, bodies)?;
        }
    }
    Ok(())
}

pub async fn metadata_kept(scene: Scene) -> Checked {
    for (name, options) in [("single", ProducerOptions::default()), ("batched", batches(2))] {
        let topic = topic(&format!("metadata-{name}"));
        let mut producer = scene.producer_with(&topic, options).await?;
        let properties = HashMap::from([("colour".to_owned(), "blå".to_owned()), ("empty".to_owned(), String::new())]);
        let first = Message {
            payload: b"one".to_vec(),
            properties: properties.clone(),
            partition_key: Some("key".to_owned()),
            ordering_key: Some(vec![0, 255, 7]),
            event_time: Some(1_234_567),
            ..Default::default()
        };
        let second = Message {
            partition_key: Some("AP8H".to_owned()),
            partition_key_b64_encoded: Some(true),
            ..Default::default()
        };
        for waiting in producer.send_all([first, second]).await? {
            waiting.await?;
        }
        let mut consumer = scene.consumer(&topic, SubType::Exclusive).await?;
        let one = receive(&mut consumer).await?;
        let seen = one.metadata();
        let pairs: HashMap<_, _> = seen.properties.iter().map(|each| (each.key.clone(), each.value.clone())).collect();
        same(pairs, properties)?;
        same(one.key(), Some("key".to_owned()))?;
        same(seen.ordering_key.clone(), Some(vec![0, 255, 7]))?;
        same(seen.event_time, Some(1_234_567))?;
        ensure(now_ms().abs_diff(seen.publish_time) < 60_000, "not the time of publishing")?;
        let two = receive(&mut consumer).await?;
        same(two.key_bytes()?, Some(vec![0, 255, 7]))?;
        same(text(&two)?, String::new())?;
    }
    Ok(())
}

pub async fn delayed(scene: Scene) -> Checked {
    let topic = topic("delayed");
    let mut consumer = scene.consumer(&topic, SubType::Shared).await?;
    let mut producer = scene.producer(&topic).await?;
    let due = now_ms() + 1500;
    let late = Message { payload: b"late".to_vec(), deliver_at_time: Some(due as i64), ..Default::default() };
    send(&mut producer, late).await?;
    send(&mut producer, "early").await?;
    same(take(&mut consumer, 1).await?, vec!["early".to_owned()])?;
    same(take(&mut consumer, 1).await?, vec!["late".to_owned()])?;
    ensure(now_ms() >= due, "came before its time")
}

/// The namespace has deduplication on. This client counts from 0 again, so a second life's messages are duplicates.
pub async fn deduplicated(scene: Scene) -> Checked {
    let topic = "persistent://public/rust-once/numbers";
    let named = || scene.client.producer().with_topic(topic).with_name("counting");
    let mut first = named().build().await?;
    let ids = send_numbered(&mut first, "a", 3).await?;
    ensure(ids.iter().all(|id| id.ledger_id != u64::MAX), "a first message is no duplicate")?;
    first.close().await?;
    let mut second = named().build().await?;
    let ids = send_numbered(&mut second, "b", 5).await?;
    let taken: Vec<_> = ids.iter().map(|id| id.ledger_id != u64::MAX).collect();
    same(taken, vec![false, false, false, true, true])?;
    let mut consumer = scene.consumer(topic, SubType::Exclusive).await?;
    let wanted = ["a0", "a1", "a2", "b3", "b4"].map(str::to_owned).to_vec();
    same(take(&mut consumer, 5).await?, wanted)
}

pub async fn name_taken(scene: Scene) -> Checked {
    let named = || scene.client.producer().with_topic(topic("names")).with_name("only-one");
    let mut first = named().build().await?;
    refused(named().build().await, "ProducerBusy")?;
    first.close().await?;
    named().build().await?;
    Ok(())
}

fn mode(access_mode: i32) -> ProducerOptions {
    ProducerOptions { access_mode: Some(access_mode), ..Default::default() }
}

pub async fn access_modes(scene: Scene) -> Checked {
    let topic = topic("modes");
    let client = &scene.client;
    let builder = |number| client.producer().with_topic(&topic).with_options(mode(number));
    let mut alone = builder(1).build().await?;
    send(&mut alone, "first").await?;
    refused(builder(1).build().await, "ProducerFenced")?;
    refused(builder(0).build().await, "ProducerBusy")?;
    let next = builder(2);
    let waiting = tokio::spawn(async move { next.build().await });
    tokio::time::sleep(QUIET).await;
    ensure(!waiting.is_finished(), "came in beside an exclusive producer")?;
    alone.close().await?;
    let mut second = waiting.await??;
    send(&mut second, "second").await?;
    second.close().await?;
    let mut alone = builder(1).build().await?;
    let mut taker = builder(3).build().await?;
    send(&mut taker, "third").await?;
    let error = send(&mut alone, "too late").await.err().ok_or("a fenced producer sends")?;
    ensure(error.to_string().contains("ProducerFenced"), error.to_string())?;
    let mut consumer = scene.consumer(&topic, SubType::Exclusive).await?;
    same(take(&mut consumer, 3).await?, ["first", "second", "third"].map(str::to_owned).to_vec())?;
    nothing_comes(&mut consumer).await
}

pub async fn queue_full(scene: Scene) -> Checked {
    let client = Pulsar::builder(&scene.url, TokioExecutor).with_outbound_channel_size(1).build().await?;
    let mut producer = client.producer().with_topic(topic("full")).build().await?;
    let (mut waiting, mut full) = (Vec::new(), 0);
    for _ in 0..200 {
        match producer.send_non_blocking(vec![7u8; 100_000]).await {
            Ok(each) => waiting.push(each),
            Err(Error::Producer(ProducerError::Connection(ConnectionError::SlowDown))) => full += 1,
            Err(other) => return Err(other.into()),
        }
    }
    ensure(full > 0, "the queue was never full")?;
    for each in waiting {
        each.await?;
    }
    Ok(())
}

pub async fn too_large(scene: Scene) -> Checked {
    let topic = topic("large");
    let mut brief = retries();
    brief.operation_timeout = Duration::from_secs(5);
    let client = Pulsar::builder(&scene.url, TokioExecutor).with_operation_retry_options(brief).build().await?;
    let mut producer = client.producer().with_topic(&topic).build().await?;
    let limit = 5 * 1024 * 1024;
    send(&mut producer, vec![b'a'; limit - 1024]).await?;
    let error = send(&mut producer, vec![b'b'; limit + 1024]).await.err().ok_or("taken")?;
    ensure(error.to_string().contains("NotAllowed") || error.to_string().contains("send_error"), error.to_string())?;
    send(&mut producer, "between").await?;
    ensure(send(&mut producer, vec![b'c'; limit + 100_000]).await.is_err(), "taken")?;
    let mut after = scene.producer(&topic).await?;
    send(&mut after, "after").await?;
    let mut consumer = scene.consumer(&topic, SubType::Exclusive).await?;
    let lengths: Vec<_> = take(&mut consumer, 3).await?.iter().map(String::len).collect();
    same(lengths, vec![limit - 1024, 7, 5])
}

pub async fn not_persistent(scene: Scene) -> Checked {
    let topic = "non-persistent://public/default/rust-passing";
    let mut producer = scene.producer(topic).await?;
    send(&mut producer, "nobody hears").await?;
    let mut consumer = scene.consumer(topic, SubType::Shared).await?;
    let waiting = send_numbered(&mut producer, "m", 20);
    waiting.await?;
    same(take(&mut consumer, 20).await?, numbered("m", 0..20))
}
