//! The server is killed and started again at its address: nothing acknowledged is lost, and the order stays.

use std::collections::HashSet;
use std::time::Duration;

use futures::StreamExt;
use pulsar::{ProducerOptions, SubType};

use crate::producing::batches;
use crate::support::*;

const COUNT: usize = 3000;

async fn killed_between(scene: Scene, name: &str, options: ProducerOptions) -> Checked {
    let scene = patient(&scene).await?;
    let topic = topic(name);
    let mut consumer = scene.consumer(&topic, SubType::Exclusive).await?;
    let mut producer = scene.producer_with(&topic, options).await?;
    send_numbered(&mut producer, "m", 50).await?;
    same(take(&mut consumer, 50).await?, numbered("m", 0..50))?;
    settle(&mut consumer).await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    please("kill".to_owned()).await?;
    let mut waiting = Vec::new();
    for number in 50..100 {
        waiting.push(producer.send_non_blocking(format!("m{number}")).await?);
    }
    for each in waiting {
        each.await?;
    }
    let mut received = take(&mut consumer, 50).await;
    if received.is_err() {
        // A consumer that reconnects while the server is starting may give up for good, which is the client's weakness.
        drop(consumer);
        consumer = scene.consumer(&topic, SubType::Exclusive).await?;
        received = take(&mut consumer, 50).await;
    }
    same(received?, numbered("m", 50..100))
}

pub async fn killed_when_idle(scene: Scene) -> Checked {
    killed_between(scene, "killed-idle", ProducerOptions::default()).await
}

pub async fn killed_with_batches(scene: Scene) -> Checked {
    killed_between(scene, "killed-batches", batches(10)).await
}

/// Sends while the server is killed. Returns the numbers that got a receipt, and all that a later consumer received, in
/// order.
async fn killed_meanwhile(scene: Scene, topic: &str, options: ProducerOptions) -> Outcome<(Vec<usize>, Vec<usize>)> {
    let scene = patient(&scene).await?;
    let mut producer = scene.producer_with(topic, options).await?;
    scene.consumer(topic, SubType::Exclusive).await?.close().await?;
    let sending = tokio::spawn(async move {
        let (mut kept, mut waiting) = (Vec::new(), Vec::new());
        for number in 0..COUNT {
            waiting.push((number, producer.send_non_blocking(format!("m{number}")).await));
            if number % 10 == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        for (number, each) in waiting {
            if let Ok(receipt) = each {
                if receipt.await.is_ok() {
                    kept.push(number);
                }
            }
        }
        kept
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    please("kill".to_owned()).await?;
    let kept = sending.await?;
    ensure(kept.len() > COUNT - 100, format!("only {} of {COUNT} were acknowledged", kept.len()))?;
    let mut consumer = scene.consumer(topic, SubType::Exclusive).await?;
    let mut seen = Vec::new();
    while let Ok(Some(message)) = tokio::time::timeout(Duration::from_secs(3), consumer.next()).await {
        let message = message?;
        seen.push(text(&message)?[1..].parse()?);
        consumer.ack(&message).await?;
    }
    Ok((kept, seen))
}

fn queued() -> ProducerOptions {
    ProducerOptions { block_queue_if_full: true, ..Default::default() }
}

/// A message whose receipt was lost is sent again, so some come twice. The first appearances are in order.
pub async fn killed_while_sending(scene: Scene) -> Checked {
    let (kept, seen) = killed_meanwhile(scene, &topic("killed-busy"), queued()).await?;
    let mut known = HashSet::new();
    let firsts: Vec<_> = seen.into_iter().filter(|number| known.insert(*number)).collect();
    let lost: Vec<_> = kept.iter().filter(|number| !known.contains(number)).collect();
    ensure(lost.is_empty(), format!("acknowledged and lost: {lost:?}"))?;
    ensure(firsts.windows(2).all(|pair| pair[0] < pair[1]), "out of order")
}

/// With deduplication, what is sent again is stored once. The log is read from its beginning, because a kill may lose
/// the acknowledgements of the last second; a subscription that acknowledges nothing keeps the log.
pub async fn killed_once(scene: Scene) -> Checked {
    let topic = "persistent://public/rust-once/killed";
    scene.consumer_with(topic, "keeper", SubType::Shared, earliest()).await?.close().await?;
    let (kept, _) = killed_meanwhile(scene.clone(), topic, queued()).await?;
    let mut reader = scene.reader(topic, earliest()).await?;
    let mut stored = Vec::new();
    while let Ok(Some(message)) = tokio::time::timeout(QUIET, reader.next()).await {
        stored.push(text(&message?)?[1..].parse::<usize>()?);
    }
    ensure(stored.windows(2).all(|pair| pair[0] < pair[1]), "twice or out of order")?;
    let lost: Vec<_> = kept.iter().filter(|number| stored.binary_search(number).is_err()).collect();
    ensure(lost.is_empty(), format!("acknowledged and lost: {lost:?}"))
}
