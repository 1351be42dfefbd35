package main

import (
	"reflect"
	"strings"

	"github.com/apache/pulsar-client-go/pulsar"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const (
	person = `{"type":"record","name":"Person","namespace":"t","fields":[
		{"name":"name","type":"string"},{"name":"age","type":"int"}]}`
	personWithCity = `{"type":"record","name":"Person","namespace":"t","fields":[
		{"name":"name","type":"string"},{"name":"age","type":"int"},
		{"name":"city","type":"string","default":"nowhere"}]}`
	personWithMust = `{"type":"record","name":"Person","namespace":"t","fields":[
		{"name":"name","type":"string"},{"name":"age","type":"int"},{"name":"must","type":"string"}]}`
	wrapped = `{"type":"record","name":"StringValue","fields":[{"name":"value","type":"string"}]}`
)

type human struct {
	Name string `json:"name" avro:"name"`
	Age  int    `json:"age" avro:"age"`
}

type citizen struct {
	Name string `json:"name" avro:"name"`
	Age  int    `json:"age" avro:"age"`
	City string `json:"city" avro:"city"`
}

// roundTrip sends a value and receives it into the pointer `into`, which must then point at `want`.
func (s *scene) roundTrip(name string, schema pulsar.Schema, value, into, want any) {
	topic := s.topic("schema-" + name)
	send(s.producer(pulsar.ProducerOptions{Topic: topic, Schema: schema}), &pulsar.ProducerMessage{Value: value})
	for _, reading := range []pulsar.Schema{schema, nil} {
		if reading == nil && name == "bytes" {
			continue
		}
		consumer := s.consumer(pulsar.ConsumerOptions{Topic: topic, Schema: reading})
		message := receive(consumer)
		expect(len(message.SchemaVersion()) == 8, "%s: version %v", name, message.SchemaVersion())
		succeeds(message.GetSchemaValue(into))
		got := reflect.ValueOf(into).Elem().Interface()
		expect(reflect.DeepEqual(got, want), "%s: %v instead of %v", name, got, want)
		consumer.Close()
	}
}

func (s *scene) primitives() {
	text := "grüße"
	s.roundTrip("string", pulsar.NewStringSchema(map[string]string{"a": "b"}), text, new(*string), &text)
	s.roundTrip("bytes", pulsar.NewBytesSchema(nil), []byte("raw"), new([]byte), []byte("raw"))
	s.roundTrip("int8", pulsar.NewInt8Schema(nil), int8(-8), new(int8), int8(-8))
	s.roundTrip("int16", pulsar.NewInt16Schema(nil), int16(-16), new(int16), int16(-16))
	s.roundTrip("int32", pulsar.NewInt32Schema(nil), int32(-32), new(int32), int32(-32))
	s.roundTrip("int64", pulsar.NewInt64Schema(nil), int64(-64), new(int64), int64(-64))
	s.roundTrip("float", pulsar.NewFloatSchema(nil), float32(1.5), new(float32), float32(1.5))
	s.roundTrip("double", pulsar.NewDoubleSchema(nil), 2.25, new(float64), 2.25)
}

func (s *scene) protobuf() {
	for name, schema := range map[string]pulsar.Schema{
		"proto":  pulsar.NewProtoSchema(wrapped, nil),
		"native": pulsar.NewProtoNativeSchemaWithMessage(&wrapperspb.StringValue{}, nil),
	} {
		topic := s.topic("schema-" + name)
		producer := s.producer(pulsar.ProducerOptions{Topic: topic, Schema: schema})
		send(producer, &pulsar.ProducerMessage{Value: wrapperspb.String("inside")})
		got := &wrapperspb.StringValue{}
		succeeds(receive(s.consumer(pulsar.ConsumerOptions{Topic: topic, Schema: schema})).GetSchemaValue(got))
		expect(got.Value == "inside", "%s: %q", name, got.Value)
	}
}

// otherSchemas checks that the broker refuses incompatible schemas, with its own error.
func (s *scene) otherSchemas() {
	topic := s.topic("schema-others")
	s.producer(pulsar.ProducerOptions{Topic: topic, Schema: pulsar.NewAvroSchema(person, nil)})
	for _, other := range []pulsar.Schema{
		pulsar.NewStringSchema(nil), pulsar.NewJSONSchema(person, nil), pulsar.NewAvroSchema(personWithMust, nil),
	} {
		_, err := s.client.CreateProducer(pulsar.ProducerOptions{Topic: topic, Schema: other})
		refused(err, "IncompatibleSchema")
		_, err = s.client.Subscribe(pulsar.ConsumerOptions{Topic: topic, SubscriptionName: "s", Schema: other})
		refused(err, "IncompatibleSchema")
	}
	s.producer(pulsar.ProducerOptions{Topic: topic, Schema: pulsar.NewAvroSchema(personWithCity, nil)})
	s.producer(pulsar.ProducerOptions{Topic: topic})
	text := s.asks("GET", "schemas/"+strings.TrimPrefix(path(topic), "persistent/")+"/schema", "")
	expect(strings.Contains(text, `"version":1`), "%s", text)
}

// severalSchemas sends messages of one producer with different schemas.
func (s *scene) severalSchemas() {
	topic := s.topic("schema-several")
	// The client leaves out the schema version of a message that is not in a batch.
	producer := s.producer(pulsar.ProducerOptions{Topic: topic, Schema: pulsar.NewAvroSchema(person, nil)})
	sendTogether(producer, []*pulsar.ProducerMessage{
		{Value: &human{"ada", 36}},
		{Value: &citizen{"bob", 40, "ulm"}, Schema: pulsar.NewAvroSchema(personWithCity, nil)},
		{Value: &human{"eve", 20}},
	})
	consumer := s.consumer(pulsar.ConsumerOptions{Topic: topic, Schema: pulsar.NewAvroSchema(person, nil)})
	for _, version := range []byte{0, 1, 0} {
		message := receive(consumer)
		expect(len(message.SchemaVersion()) == 8 && message.SchemaVersion()[7] == version,
			"%q has version %v instead of %d", message.Payload(), message.SchemaVersion(), version)
		var got citizen
		succeeds(message.GetSchemaValue(&got))
		expect(got.Name != "" && (version == 0 || got.City == "ulm"), "%v", got)
	}
	ctx, cancel := soon()
	defer cancel()
	_, err := producer.Send(ctx, &pulsar.ProducerMessage{Value: &human{}, Schema: pulsar.NewAvroSchema(personWithMust, nil)})
	refused(err, "Incompatible")
	send(producer, &pulsar.ProducerMessage{Value: &human{"zoe", 1}})
}

var schemas = []check{
	{"schemas_of_primitives", (*scene).primitives},
	{"schemas_of_records", func(s *scene) {
		ada := human{"ada", 36}
		s.roundTrip("json", pulsar.NewJSONSchema(person, nil), &ada, new(human), ada)
		s.roundTrip("avro", pulsar.NewAvroSchema(person, nil), &ada, new(human), ada)
	}},
	{"schemas_of_protobuf", (*scene).protobuf},
	{"schemas_that_do_not_fit", (*scene).otherSchemas},
	{"schemas_by_message", (*scene).severalSchemas},
}
