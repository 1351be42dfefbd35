//! The server keeps a batch as one entry, and this client acknowledges, seeks and starts only by whole entries.

use pulsar::{ConsumerOptions, SubType};

use crate::producing::batches;
use crate::support::*;

/// A batch is redelivered as a whole.
pub async fn nacked_in_a_batch(scene: Scene) -> Checked {
    let topic = topic("nacked-batch");
    let mut consumer = scene.consumer(&topic, SubType::Shared).await?;
    send_numbered(&mut scene.producer_with(&topic, batches(4)).await?, "m", 4).await?;
    for number in 0..4 {
        let message = receive(&mut consumer).await?;
        if number == 2 {
            consumer.nack(&message).await?;
        }
    }
    same(take(&mut consumer, 4).await?, numbered("m", 0..4))?;
    nothing_comes(&mut consumer).await
}

/// This client does not send batch indexes, so the first acknowledgement counts for the whole entry.
pub async fn batch_acknowledged(scene: Scene) -> Checked {
    let topic = topic("batch-ack");
    let mut consumer = scene.consumer(&topic, SubType::Shared).await?;
    send_numbered(&mut scene.producer_with(&topic, batches(5)).await?, "m", 10).await?;
    take(&mut consumer, 1).await?;
    settle(&mut consumer).await?;
    drop(consumer);
    let mut next = scene.consumer(&topic, SubType::Shared).await?;
    same(take(&mut next, 5).await?, numbered("m", 5..10))?;
    nothing_comes(&mut next).await
}

pub async fn batch_acknowledged_up_to(scene: Scene) -> Checked {
    let topic = topic("batch-up-to");
    let mut consumer = scene.consumer(&topic, SubType::Exclusive).await?;
    send_numbered(&mut scene.producer_with(&topic, batches(5)).await?, "m", 15).await?;
    for _ in 0..7 {
        receive(&mut consumer).await?;
    }
    let message = receive(&mut consumer).await?;
    same(text(&message)?, "m7".to_owned())?;
    consumer.cumulative_ack(&message).await?;
    settle(&mut consumer).await?;
    consumer.close().await?;
    let mut next = scene.consumer(&topic, SubType::Exclusive).await?;
    same(take(&mut next, 5).await?, numbered("m", 10..15))
}

pub async fn begun_in_a_batch(scene: Scene) -> Checked {
    let topic = topic("begin-batch");
    let ids = send_numbered(&mut scene.producer_with(&topic, batches(5)).await?, "m", 15).await?;
    let options = ConsumerOptions::default().starting_on_message(ids[7].clone());
    let mut reader = scene.reader(&topic, options).await?;
    for number in 5..15 {
        same(text(&read(&mut reader).await?)?, format!("m{number}"))?;
    }
    reader.seek(Some(ids[12].clone()), None).await?;
    for number in 10..15 {
        same(text(&read(&mut reader).await?)?, format!("m{number}"))?;
    }
    Ok(())
}

/// Permits count messages, so a batch that is larger than the window makes them negative for a while.
pub async fn small_window(scene: Scene) -> Checked {
    for kind in [SubType::Exclusive, SubType::Shared, SubType::KeyShared] {
        let topic = topic(&format!("window-{kind:?}"));
        send_numbered(&mut scene.producer_with(&topic, batches(10)).await?, "m", 100).await?;
        let builder = scene.client.consumer().with_topic(&topic).with_subscription("s").with_subscription_type(kind);
        let options = earliest().with_receiver_queue_size(1);
        let mut consumer: Incoming = builder.with_batch_size(2).with_options(options).build().await?;
        same(take(&mut consumer, 100).await?, numbered("m", 0..100))?;
        settle(&mut consumer).await?;
        nothing_comes(&mut consumer).await?;
    }
    Ok(())
}
