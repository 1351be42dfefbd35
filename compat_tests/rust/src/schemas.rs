//! Schemas: registered by producers and consumers, read back with their versions, refused when they do not fit.

use std::collections::HashMap;

use pulsar::message::proto::schema::Type;
use pulsar::message::proto::{KeyValue, Schema};
use pulsar::{ConsumerOptions, ProducerOptions, SubType};

use crate::support::*;

const NAMED: &str = r#"{"type":"record","name":"Person","fields":[{"name":"name","type":"string"}]}"#;
const AGED: &str = r#"{"type":"record","name":"Person","fields":[{"name":"name","type":"string"},
    {"name":"age","type":["null","int"],"default":null}]}"#;
const UNLIKE: &str = r#"{"type":"record","name":"Person","fields":[{"name":"name","type":"int"}]}"#;

fn schema(kind: Type, definition: &str) -> Schema {
    let properties = vec![KeyValue { key: "made".into(), value: "here".into() }];
    Schema {
        name: "Person".into(),
        schema_data: definition.into(),
        r#type: kind as i32,
        properties,
        ..Default::default()
    }
}

fn with(schema: Schema) -> ProducerOptions {
    ProducerOptions { schema: Some(schema), ..Default::default() }
}

pub async fn records(scene: Scene) -> Checked {
    for (name, kind) in [("json", Type::Json), ("avro", Type::Avro)] {
        let topic = topic(&format!("schema-{name}"));
        let client = &scene.client;
        let producing = |definition| client.producer().with_topic(&topic).with_options(with(schema(kind, definition)));
        let mut first = producing(NAMED).build().await?;
        let mut second = producing(AGED).build().await?;
        send(&mut first, "old").await?;
        send(&mut second, "new").await?;
        refused(producing(UNLIKE).build().await, "IncompatibleSchema")?;
        let options = ConsumerOptions { schema: Some(schema(kind, UNLIKE)), ..earliest() };
        let builder = client.consumer().with_topic(&topic).with_subscription("t").with_options(options);
        refused(builder.build::<String>().await, "IncompatibleSchema")?;
        let options = ConsumerOptions { schema: Some(schema(kind, AGED)), ..earliest() };
        let mut consumer = scene.consumer_with(&topic, "s", SubType::Exclusive, options).await?;
        for (version, definition) in [NAMED, AGED].into_iter().enumerate() {
            let message = receive(&mut consumer).await?;
            let stamped = message.metadata().schema_version.clone();
            same(stamped.clone(), Some((version as u64).to_be_bytes().to_vec()))?;
            let found = consumer.get_schema(&topic, stamped).await?.ok_or("no schema")?;
            same(found.schema_data, definition.as_bytes().to_vec())?;
            same(found.r#type, kind as i32)?;
            same(
                found.properties.iter().map(|each| (&*each.key, &*each.value)).collect::<Vec<_>>(),
                vec![("made", "here")],
            )?;
        }
        let newest = consumer.get_schema(&topic, None).await?.ok_or("no schema")?;
        same(newest.schema_data, AGED.as_bytes().to_vec())?;
        let admin = scene.client.admin(&scene.web)?;
        let found = admin.get_schema(&topic).await?.ok_or("no schema over HTTP")?;
        same((found.r#type, found.schema_data), (kind as i32, AGED.as_bytes().to_vec()))?;
        let found = admin.get_schema_at_version(&topic, 0).await?.ok_or("no first version over HTTP")?;
        same(found.schema_data, NAMED.as_bytes().to_vec())?;
        ensure(admin.get_schema_at_version(&topic, 7).await?.is_none(), "a version that is not there")?;
    }
    Ok(())
}

pub async fn primitives(scene: Scene) -> Checked {
    let kinds = HashMap::from([
        ("string", Type::String),
        ("long", Type::Int64),
        ("bool", Type::Bool),
        ("double", Type::Double),
    ]);
    for (name, kind) in kinds {
        let topic = topic(&format!("schema-{name}"));
        let mut producer = scene.producer_with(&topic, with(schema(kind, ""))).await?;
        send(&mut producer, "12345678").await?;
        let mut consumer = scene.consumer(&topic, SubType::Exclusive).await?;
        same(take(&mut consumer, 1).await?, vec!["12345678".to_owned()])?;
        let found = consumer.get_schema(&topic, None).await?.ok_or("no schema")?;
        same(found.r#type, kind as i32)?;
        let other = with(schema(Type::Int8, ""));
        let refusal = scene.client.producer().with_topic(&topic).with_options(other).build().await;
        refused(refusal, "IncompatibleSchema")?;
    }
    Ok(())
}

pub async fn none(scene: Scene) -> Checked {
    let topic = topic("schema-none");
    let mut consumer = scene.consumer(&topic, SubType::Exclusive).await?;
    ensure(consumer.get_schema(&topic, None).await?.is_none(), "a schema that nobody gave")?;
    ensure(scene.client.admin(&scene.web)?.get_schema(&topic).await?.is_none(), "a schema over HTTP")
}
