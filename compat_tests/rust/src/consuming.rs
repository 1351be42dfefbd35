//! Receiving: types of subscription, acknowledgement, redelivery, dead letters, seeking, readers.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use futures::StreamExt;
use pulsar::consumer::DeadLetterPolicy;
use pulsar::message::proto::MessageIdData;
use pulsar::producer::Message;
use pulsar::{ConsumerOptions, SubType};

use crate::producing::{batches, now_ms};
use crate::support::*;

pub async fn exclusive(scene: Scene) -> Checked {
    let topic = topic("exclusive");
    let mut first = scene.consumer(&topic, SubType::Exclusive).await?;
    let again = || scene.client.consumer().with_topic(&topic).with_subscription("s");
    refused(again().with_subscription_type(SubType::Exclusive).build::<String>().await, "ConsumerBusy")?;
    refused(again().with_subscription_type(SubType::Shared).build::<String>().await, "ConsumerBusy")?;
    first.close().await?;
    again().with_subscription_type(SubType::Shared).build::<String>().await?;
    Ok(())
}

pub async fn shared(scene: Scene) -> Checked {
    let topic = topic("shared");
    let mut consumers =
        [scene.consumer(&topic, SubType::Shared).await?, scene.consumer(&topic, SubType::Shared).await?];
    send_numbered(&mut scene.producer(&topic).await?, "m", 40).await?;
    let (mut seen, mut used) = (Vec::new(), 0);
    for consumer in &mut consumers {
        let before = seen.len();
        while let Ok(Some(message)) = tokio::time::timeout(QUIET, consumer.next()).await {
            let message = message?;
            seen.push(text(&message)?);
            consumer.ack(&message).await?;
        }
        used += usize::from(seen.len() > before);
    }
    seen.sort_by_key(|text| text[1..].parse::<usize>().ok());
    same((seen, used), (numbered("m", 0..40), 2))
}

pub async fn priorities(scene: Scene) -> Checked {
    let topic = topic("priorities");
    let low = earliest().with_priority_level(1);
    let mut later = scene.consumer_with(&topic, "s", SubType::Shared, low).await?;
    let mut sooner = scene.consumer_with(&topic, "s", SubType::Shared, earliest().with_priority_level(0)).await?;
    send_numbered(&mut scene.producer(&topic).await?, "m", 20).await?;
    same(take(&mut sooner, 20).await?, numbered("m", 0..20))?;
    nothing_comes(&mut later).await
}

pub async fn failover(scene: Scene) -> Checked {
    let topic = topic("failover");
    let named = |name: &str, level| {
        let builder = scene.client.consumer().with_topic(&topic).with_subscription("s").with_consumer_name(name);
        let options = earliest().with_priority_level(level);
        builder.with_subscription_type(SubType::Failover).with_options(options).build::<String>()
    };
    let mut second = named("b", 1).await?;
    let mut first = named("a", 0).await?;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let mut producer = scene.producer(&topic).await?;
    send_numbered(&mut producer, "m", 10).await?;
    same(take(&mut first, 5).await?, numbered("m", 0..5))?;
    settle(&mut first).await?;
    nothing_comes(&mut second).await?;
    drop(first);
    same(take(&mut second, 5).await?, numbered("m", 5..10))
}

pub async fn key_shared(scene: Scene) -> Checked {
    let topic = topic("keys");
    let mut consumers = Vec::new();
    for _ in 0..3 {
        consumers.push(scene.consumer(&topic, SubType::KeyShared).await?);
    }
    let mut producer = scene.producer(&topic).await?;
    for number in 0..120 {
        let payload = format!("{number}").into_bytes();
        let partition_key = Some(format!("key-{}", number % 12));
        let ordering_key = (number % 24 >= 12).then(|| format!("key-{}", number % 12).into_bytes());
        send(&mut producer, Message { payload, partition_key, ordering_key, ..Default::default() }).await?;
    }
    let mut owners: HashMap<String, usize> = HashMap::new();
    let mut last: HashMap<String, i32> = HashMap::new();
    let (mut count, mut used) = (0, HashSet::new());
    for (index, consumer) in consumers.iter_mut().enumerate() {
        while let Ok(message) = tokio::time::timeout(QUIET, consumer.next()).await {
            let message = message.ok_or("ended")??;
            let (key, number) = (message.key().ok_or("no key")?, text(&message)?.parse()?);
            same(*owners.entry(key.clone()).or_insert(index), index)?;
            ensure(last.insert(key, number).is_none_or(|before| before < number), "a key out of order")?;
            used.insert(index);
            count += 1;
            consumer.ack(&message).await?;
        }
    }
    same((count, used.len()), (120, 3))
}

pub async fn nacked(scene: Scene) -> Checked {
    let topic = topic("nacked");
    let mut consumer = scene.consumer(&topic, SubType::Shared).await?;
    send_numbered(&mut scene.producer(&topic).await?, "m", 4).await?;
    for number in 0..4 {
        let message = receive(&mut consumer).await?;
        if number > 1 {
            consumer.nack(&message).await?;
        } else {
            consumer.ack(&message).await?;
        }
    }
    let again: HashSet<_> = take(&mut consumer, 2).await?.into_iter().collect();
    same(again, numbered("m", 2..4).into_iter().collect())?;
    nothing_comes(&mut consumer).await
}

pub async fn forgotten(scene: Scene) -> Checked {
    let topic = topic("forgotten");
    let builder = scene.client.consumer().with_topic(&topic).with_subscription("s").with_options(earliest());
    let builder = builder.with_unacked_message_resend_delay(Some(Duration::from_secs(1)));
    let mut consumer: Incoming = builder.with_subscription_type(SubType::Shared).build().await?;
    send_numbered(&mut scene.producer(&topic).await?, "m", 3).await?;
    let kept = receive(&mut consumer).await?;
    same(take(&mut consumer, 2).await?, numbered("m", 1..3))?;
    let again = receive(&mut consumer).await?;
    same((text(&again)?, again.message_id()), (text(&kept)?, kept.message_id()))?;
    consumer.ack(&again).await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    nothing_comes(&mut consumer).await
}

pub async fn dead_letters(scene: Scene) -> Checked {
    for (name, options) in [("single", Default::default()), ("batched", batches(3))] {
        let topic = topic(&format!("dying-{name}"));
        let dead_letter_topic = format!("{topic}-s-DLQ");
        let mut dead = scene.consumer(&dead_letter_topic, SubType::Exclusive).await?;
        let policy = DeadLetterPolicy { max_redeliver_count: 2, dead_letter_topic };
        let builder = scene.client.consumer().with_topic(&topic).with_subscription("s").with_options(earliest());
        let builder = builder.with_subscription_type(SubType::Shared).with_dead_letter_policy(policy);
        let mut consumer: Incoming = builder.build().await?;
        let mut producer = scene.producer_with(&topic, options).await?;
        let ids = send_numbered(&mut producer, "m", 3).await?;
        for _ in 0..2 {
            let mut held = Vec::new();
            for _ in 0..3 {
                held.push(receive(&mut consumer).await?);
            }
            // For a batch one call is enough, because each asks for the whole batch.
            for message in held.iter().take(if name == "single" { 3 } else { 1 }) {
                consumer.nack(message).await?;
            }
        }
        let mut letters = Vec::new();
        for _ in &ids {
            letters.push(receive(&mut dead).await?);
        }
        letters.sort_by_key(|message| text(message).unwrap_or_default());
        for (message, id) in letters.into_iter().zip(ids) {
            let properties: HashMap<_, _> =
                message.metadata().properties.iter().map(|p| (&*p.key, &*p.value)).collect();
            same(properties.get("REAL_TOPIC").copied(), Some(&*topic))?;
            let origin = properties.get("ORIGIN_MESSAGE_ID").copied().unwrap_or_default();
            ensure(origin.starts_with(&format!("{}:{}:", id.ledger_id, id.entry_id)), origin)?;
            dead.ack(&message).await?;
        }
        nothing_comes(&mut consumer).await?;
        consumer.close().await?;
        let mut next = scene.consumer(&topic, SubType::Shared).await?;
        nothing_comes(&mut next).await?;
    }
    Ok(())
}

pub async fn cumulative(scene: Scene) -> Checked {
    let topic = topic("cumulative");
    let mut consumer = scene.consumer(&topic, SubType::Exclusive).await?;
    send_numbered(&mut scene.producer(&topic).await?, "m", 10).await?;
    for number in 0..10 {
        let message = receive(&mut consumer).await?;
        if number == 5 {
            consumer.cumulative_ack(&message).await?;
        }
    }
    settle(&mut consumer).await?;
    consumer.close().await?;
    let mut next = scene.consumer(&topic, SubType::Exclusive).await?;
    same(take(&mut next, 4).await?, numbered("m", 6..10))
}

pub async fn stats(scene: Scene) -> Checked {
    let topic = topic("stats");
    let builder = scene.client.consumer().with_topic(&topic).with_subscription("s").with_consumer_name("counted");
    let mut consumer: Incoming = builder.with_subscription_type(SubType::Shared).with_batch_size(100).build().await?;
    send_numbered(&mut scene.producer(&topic).await?, "m", 3).await?;
    for _ in 0..3 {
        receive(&mut consumer).await?;
    }
    let answers = consumer.get_stats().await?;
    let seen = answers.first().ok_or("no answer")?;
    same(
        (seen.error_code, seen.consumer_name.as_deref(), seen.r#type.as_deref()),
        (None, Some("counted"), Some("Shared")),
    )?;
    same((seen.available_permits, seen.unacked_messages, seen.msg_backlog), (Some(97), Some(3), Some(3)))
}

/// Exclusive is left out: after a seek this client reconnects its former consumer and makes another one meanwhile, and
/// one of them is refused, here and by Apache.
pub async fn seeking(scene: Scene) -> Checked {
    for kind in [SubType::Shared, SubType::Failover] {
        let topic = topic(&format!("seek-{kind:?}"));
        let mut producer = scene.producer(&topic).await?;
        let mut ids = send_numbered(&mut producer, "m", 5).await?;
        tokio::time::sleep(Duration::from_millis(50)).await;
        let middle = now_ms();
        ids.extend(send_numbered(&mut producer, "n", 5).await?);
        let mut consumer = scene.consumer(&topic, kind).await?;
        take(&mut consumer, 10).await?;
        consumer.seek(None, Some(ids[3].clone()), None, scene.client.clone()).await?;
        let texts: HashSet<_> = take(&mut consumer, 7).await?.into_iter().collect();
        let wanted: Vec<_> = numbered("m", 3..5).into_iter().chain(numbered("n", 0..5)).collect();
        same(texts, wanted.into_iter().collect())?;
        consumer.seek(None, None, Some(middle), scene.client.clone()).await?;
        let texts: HashSet<_> = take(&mut consumer, 5).await?.into_iter().collect();
        same(texts, numbered("n", 0..5).into_iter().collect())?;
        nothing_comes(&mut consumer).await?;
    }
    Ok(())
}

pub async fn last_id(scene: Scene) -> Checked {
    let topic = topic("last");
    let mut consumer = scene.consumer(&topic, SubType::Exclusive).await?;
    let empty = consumer.get_last_message_id().await?.remove(0);
    same(empty.entry_id, u64::MAX)?;
    let sent = send_numbered(&mut scene.producer(&topic).await?, "m", 3).await?.remove(2);
    let last = consumer.get_last_message_id().await?.remove(0);
    same((last.ledger_id, last.entry_id), (sent.ledger_id, sent.entry_id))?;
    let sent = send_numbered(&mut scene.producer_with(&topic, batches(4)).await?, "b", 4).await?.remove(3);
    let last = consumer.get_last_message_id().await?.remove(0);
    same((last.ledger_id, last.entry_id, last.batch_index), (sent.ledger_id, sent.entry_id, Some(3)))
}

pub async fn unsubscribed(scene: Scene) -> Checked {
    let topic = topic("unsubscribed");
    let mut consumer = scene.consumer(&topic, SubType::Shared).await?;
    let mut other = scene.consumer(&topic, SubType::Shared).await?;
    send_numbered(&mut scene.producer(&topic).await?, "m", 2).await?;
    ensure(consumer.unsubscribe().await.is_err(), "unsubscribed beside another consumer")?;
    other.close().await?;
    consumer.unsubscribe().await?;
    let mut next = scene.consumer_with(&topic, "s", SubType::Shared, ConsumerOptions::default()).await?;
    nothing_comes(&mut next).await
}

pub async fn readers(scene: Scene) -> Checked {
    for (name, options) in [("single", Default::default()), ("batched", batches(3))] {
        let topic = topic(&format!("read-{name}"));
        let mut producer = scene.producer_with(&topic, options).await?;
        let ids = send_numbered(&mut producer, "m", 6).await?;
        let mut all = scene.reader(&topic, earliest()).await?;
        for number in 0..6 {
            same(text(&read(&mut all).await?)?, format!("m{number}"))?;
        }
        let start = MessageIdData { batch_index: None, batch_size: None, ..ids[3].clone() };
        let mut some = scene.reader(&topic, ConsumerOptions::default().starting_on_message(start.clone())).await?;
        for number in 3..6 {
            same(text(&read(&mut some).await?)?, format!("m{number}"))?;
        }
        let last = some.get_last_message_id().await?;
        same((last.ledger_id, last.entry_id), (ids[5].ledger_id, ids[5].entry_id))?;
        let mut newest = scene.reader(&topic, ConsumerOptions::default()).await?;
        send_numbered(&mut producer, "new", 1).await?;
        same(text(&read(&mut newest).await?)?, "new0".to_owned())?;
        newest.check_connection().await?;
    }
    Ok(())
}

pub async fn reader_seeks(scene: Scene) -> Checked {
    let topic = topic("read-seek");
    let ids = send_numbered(&mut scene.producer(&topic).await?, "m", 6).await?;
    let mut reader = scene.reader(&topic, earliest()).await?;
    for number in 0..6 {
        same(text(&read(&mut reader).await?)?, format!("m{number}"))?;
    }
    reader.seek(Some(ids[2].clone()), None).await?;
    for number in 2..6 {
        same(text(&read(&mut reader).await?)?, format!("m{number}"))?;
    }
    Ok(())
}
