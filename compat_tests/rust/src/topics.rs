//! Topics: partitions and routing, several at once, patterns, lookups; what the admin API and the operator do to them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use pulsar::message::proto::command_get_topics_of_namespace::Mode;
use pulsar::producer::Message;
use pulsar::routing_policy::{CustomRoutingPolicy, RoutingPolicy};
use pulsar::{ConsumerOptions, ProducerOptions, SubType};
use regex::Regex;

use crate::producing::compressions;
use crate::support::*;

/// The driver has made this topic with four partitions.
const PARTED: &str = "persistent://public/default/rust-parted";

struct ByLength;

impl CustomRoutingPolicy for ByLength {
    fn route(&self, message: &Message, partitions: usize) -> usize {
        message.payload.len() % partitions
    }
}

fn routed(policy: RoutingPolicy) -> ProducerOptions {
    ProducerOptions { routing_policy: Some(policy), ..Default::default() }
}

fn keyed(key: usize) -> Message {
    let partition_key = Some(format!("key-{key}"));
    Message { payload: format!("{key}").into_bytes(), partition_key, ..Default::default() }
}

pub async fn partitions(scene: Scene) -> Checked {
    same(scene.client.lookup_partitioned_topic_number(PARTED).await?, 4)?;
    same(scene.client.lookup_partitioned_topic(PARTED).await?.len(), 4)?;
    let mut consumer = scene.consumer(PARTED, SubType::Shared).await?;
    same(consumer.topics().len(), 4)?;
    let mut by_turns = scene.producer(PARTED).await?;
    same(by_turns.partitions().map(|each| each.len()), Some(4))?;
    send_numbered(&mut by_turns, "turn", 8).await?;
    let counts = counted(&mut consumer, 8).await?;
    same(counts.into_values().map(|texts| texts.len()).collect::<Vec<_>>(), vec![2; 4])?;
    let mut single = scene.producer_with(PARTED, routed(RoutingPolicy::Single)).await?;
    send_numbered(&mut single, "one", 4).await?;
    same(counted(&mut consumer, 4).await?.len(), 1)?;
    let mut custom = scene.producer_with(PARTED, routed(RoutingPolicy::Custom(Arc::new(ByLength)))).await?;
    for length in 0..8 {
        send(&mut custom, "x".repeat(length)).await?;
    }
    for (partition, texts) in counted(&mut consumer, 8).await? {
        ensure(texts.iter().all(|text| partition.ends_with(&format!("-{}", text.len() % 4))), partition)?;
    }
    let mut by_key = scene.producer_with(PARTED, routed(RoutingPolicy::RoundRobin)).await?;
    for number in 0..40 {
        send(&mut by_key, keyed(number % 10)).await?;
    }
    for (partition, texts) in counted(&mut consumer, 40).await? {
        for key in texts {
            let index = RoutingPolicy::compute_partition_index_for_key(&format!("key-{key}"), 4);
            ensure(partition.ends_with(&format!("-partition-{index}")), format!("{key} on {partition}"))?;
        }
    }
    consumer.unsubscribe().await?;
    Ok(())
}

async fn counted(consumer: &mut Incoming, count: usize) -> Outcome<HashMap<String, Vec<String>>> {
    let mut counts: HashMap<String, Vec<String>> = HashMap::new();
    for _ in 0..count {
        let message = receive(consumer).await?;
        let index = message.message_id().partition.ok_or("no partition")?;
        ensure(message.topic.ends_with(&format!("-partition-{index}")), message.topic.clone())?;
        counts.entry(message.topic.clone()).or_default().push(text(&message)?);
        consumer.ack(&message).await?;
    }
    Ok(counts)
}

pub async fn several_topics(scene: Scene) -> Checked {
    let names = [topic("several-a"), topic("several-b")];
    let builder = scene.client.consumer().with_topics(&names).with_subscription("s").with_options(earliest());
    let mut consumer: Incoming = builder.with_subscription_type(SubType::Exclusive).build().await?;
    for name in &names {
        send_numbered(&mut scene.producer(name).await?, name, 2).await?;
    }
    let seen: HashSet<_> = take(&mut consumer, 4).await?.into_iter().collect();
    same(seen, names.iter().flat_map(|name| numbered(name, 0..2)).collect())?;
    same(consumer.get_last_message_id().await?.len(), 2)?;
    consumer.close().await?;
    Ok(())
}

pub async fn pattern(scene: Scene) -> Checked {
    let named = |name: &str| format!("persistent://public/rust-pattern/{name}");
    let mut before = scene.producer(&named("fits-1")).await?;
    scene.producer(&named("other")).await?;
    let builder = scene.client.consumer().with_topic_regex(Regex::new("rust-pattern/fits-.*")?);
    let builder = builder.with_lookup_namespace("public/rust-pattern").with_topic_refresh(Duration::from_millis(500));
    let builder = builder.with_subscription("s").with_subscription_type(SubType::Shared).with_options(earliest());
    let mut consumer: Incoming = builder.build().await?;
    send(&mut before, "first").await?;
    same(take(&mut consumer, 1).await?, vec!["first".to_owned()])?;
    send(&mut scene.producer(&named("fits-2")).await?, "second").await?;
    same(take(&mut consumer, 1).await?, vec!["second".to_owned()])?;
    let mut listed = scene.client.get_topics_of_namespace("public/rust-pattern".into(), Mode::All).await?;
    listed.sort();
    same(listed, ["fits-1", "fits-2", "other"].map(|name| named(name)).to_vec())?;
    let listed = scene.client.get_topics_of_namespace("public/rust-pattern".into(), Mode::NonPersistent).await?;
    same(listed, vec![])
}

pub async fn looked_up(scene: Scene) -> Checked {
    let found = scene.client.lookup_topic(topic("looked-up")).await?;
    ensure(scene.url.ends_with(&found.broker_url), found.broker_url)?;
    same(scene.client.lookup_partitioned_topic_number(topic("looked-up")).await?, 0)?;
    refused(scene.client.lookup_topic("persistent://public/nowhere/x").await, "TopicNotFound")
}

/// The driver has made this namespace, in which topics are not created automatically.
pub async fn missing(scene: Scene) -> Checked {
    let name = "persistent://public/rust-manual/missing";
    refused(scene.client.producer().with_topic(name).build().await, "TopicNotFound")?;
    let builder = scene.client.consumer().with_topic(name).with_subscription("s");
    refused(builder.build::<String>().await, "TopicNotFound")?;
    let part = format!("{name}-partition-0");
    refused(scene.client.producer().with_topic(&part).build().await, "TopicNotFound")?;
    refused(scene.client.consumer().with_topic(&part).with_subscription("s").build::<String>().await, "TopicNotFound")
}

pub async fn bad_names(scene: Scene) -> Checked {
    refused(scene.client.producer().with_topic("persistent://public/default").build().await, "InvalidTopicName")?;
    let builder = scene.client.consumer().with_topic(topic("names")).with_subscription("");
    ensure(builder.build::<String>().await.is_err(), "a subscription without a name")
}

pub async fn unacknowledged_limit(scene: Scene) -> Checked {
    let name = topic("limited");
    let mut consumer = scene.consumer(&name, SubType::Shared).await?;
    let admin = scene.client.admin(&scene.web)?;
    admin.set_max_unacked_messages_per_consumer(&name, 2).await?;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let mut producer = scene.producer(&name).await?;
    for number in 0..6 {
        send(&mut producer, format!("m{number}")).await?;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut held = Vec::new();
    while let Ok(Some(message)) = tokio::time::timeout(QUIET, consumer.next()).await {
        held.push(message?);
    }
    same(held.len(), 2)?;
    for message in &held {
        consumer.ack(message).await?;
    }
    admin.remove_max_unacked_messages_per_consumer(&name).await?;
    same(take(&mut consumer, 4).await?, numbered("m", 2..6))
}

pub async fn compacted(scene: Scene) -> Checked {
    for (name, compression) in compressions() {
        for batch_size in [None, Some(6)] {
            let name = topic(&format!("compacted-{name}-{}", batch_size.unwrap_or(1)));
            scene.consumer_with(&name, "s", SubType::Exclusive, earliest()).await?.close().await?;
            let batch_timeout = batch_size.map(|_| Duration::from_millis(50));
            let compression = Some(compression.clone());
            let options = ProducerOptions { compression, batch_size, batch_timeout, ..Default::default() };
            let mut producer = scene.producer_with(&name, options).await?;
            let messages = [("a", "1"), ("b", "2"), ("a", "3"), ("c", "4"), ("c", ""), ("b", "5")];
            let messages = messages.map(|(key, body)| Message {
                payload: body.as_bytes().to_vec(),
                partition_key: Some(key.to_owned()),
                ..Default::default()
            });
            for waiting in producer.send_all(messages).await? {
                waiting.await?;
            }
            please(format!("compact {name}")).await?;
            let options = ConsumerOptions { read_compacted: Some(true), ..earliest() };
            let mut consumer = scene.consumer_with(&name, "s", SubType::Exclusive, options).await?;
            // Nobody else can read what this client compresses with snappy, so such a batch is not compacted.
            let whole = name.contains("snappy") && batch_size.is_some();
            let wanted = if whole { vec!["1", "2", "3", "4", "", "5"] } else { vec!["3", "5"] };
            let mut seen = Vec::new();
            while let Ok(Some(message)) = tokio::time::timeout(QUIET, consumer.next()).await {
                seen.push(text(&message?)?);
            }
            // This client returns empty messages for those that compaction took out of a batch.
            if batch_size.is_some() && !whole {
                seen.retain(|body| !body.is_empty());
            }
            same(seen, wanted.into_iter().map(str::to_owned).collect()).map_err(|error| format!("{name}: {error}"))?;
        }
    }
    Ok(())
}

pub async fn unloaded(scene: Scene) -> Checked {
    let name = topic("unloaded");
    let mut consumer = scene.consumer(&name, SubType::Exclusive).await?;
    let mut producer = scene.producer(&name).await?;
    send_numbered(&mut producer, "a", 5).await?;
    same(take(&mut consumer, 5).await?, numbered("a", 0..5))?;
    settle(&mut consumer).await?;
    please(format!("unload {name}")).await?;
    send_numbered(&mut producer, "b", 5).await?;
    same(take(&mut consumer, 5).await?, numbered("b", 0..5))
}

pub async fn deleted(scene: Scene) -> Checked {
    let scene = patient(&scene).await?;
    let name = topic("deleted");
    let mut consumer = scene.consumer(&name, SubType::Shared).await?;
    let mut producer = scene.producer(&name).await?;
    send_numbered(&mut producer, "a", 2).await?;
    same(take(&mut consumer, 2).await?, numbered("a", 0..2))?;
    please(format!("delete {name}")).await?;
    send_numbered(&mut producer, "b", 3).await?;
    same(take(&mut consumer, 3).await?, numbered("b", 0..3))?;
    nothing_comes(&mut consumer).await
}

/// The driver has made this namespace for encrypted messages only. This client declares that it encrypts, but does not.
pub async fn unencrypted(scene: Scene) -> Checked {
    let name = "persistent://public/rust-sealed/open";
    refused(scene.client.producer().with_topic(name).build().await, "MetadataError")?;
    let options = ProducerOptions { encrypted: Some(true), ..Default::default() };
    let mut producer = scene.producer_with(name, options).await?;
    let error = send(&mut producer, "plain").await.err().ok_or("taken")?.to_string();
    ensure(error.contains("must be encrypted"), error)
}

pub async fn terminated(scene: Scene) -> Checked {
    let name = topic("ended");
    let mut consumer = scene.consumer(&name, SubType::Exclusive).await?;
    let mut producer = scene.producer(&name).await?;
    send_numbered(&mut producer, "m", 3).await?;
    please(format!("terminate {name}")).await?;
    ensure(send(&mut producer, "late").await.is_err(), "sent after the end")?;
    refused(scene.client.producer().with_topic(&name).build().await, "TopicTerminatedError")?;
    same(take(&mut consumer, 3).await?, numbered("m", 0..3))?;
    settle(&mut consumer).await.ok();
    match tokio::time::timeout(SOON, consumer.next()).await {
        Ok(None) => Ok(()),
        other => Err(format!("no end of the topic: {:?}", other.map(|each| each.is_some())).into()),
    }
}
