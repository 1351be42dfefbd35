package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
)

const megabyte = 1 << 20

var producing = []check{
	{"send_waits_for_an_id", func(s *scene) {
		topic := s.topic("send")
		ids := sendNumbers(s.producer(pulsar.ProducerOptions{Topic: topic}), 5)
		for at, message := range receivesTexts(s.consumer(pulsar.ConsumerOptions{Topic: topic}), numbers(0, 5)...) {
			expect(message.ID().String() == ids[at].String(), "%v was sent as %v", message.ID(), ids[at])
			expect(time.Since(message.PublishTime()).Abs() < time.Minute, "published at %v", message.PublishTime())
		}
	}},
	{"async_keeps_order", func(s *scene) {
		topic := s.topic("async")
		producer := s.producer(pulsar.ProducerOptions{Topic: topic, MaxPendingMessages: 200})
		sendTogether(producer, texts(0, 1000))
		receivesTexts(s.consumer(pulsar.ConsumerOptions{Topic: topic}), numbers(0, 1000)...)
	}},
	{"batches", func(s *scene) {
		topic := s.topic("batches")
		sendTogether(s.producer(pulsar.ProducerOptions{
			Topic: topic, BatchingMaxMessages: 10, BatchingMaxPublishDelay: 5 * time.Second,
		}), texts(0, 100))
		for at, message := range receivesTexts(s.consumer(pulsar.ConsumerOptions{Topic: topic}), numbers(0, 100)...) {
			id := message.ID()
			expect(id.BatchIdx() == int32(at%10) && id.BatchSize() == 10, "message %d is %v of %d", at, id, id.BatchSize())
		}
	}},
	{"without_batches", func(s *scene) {
		topic := s.topic("unbatched")
		sendTogether(s.producer(pulsar.ProducerOptions{Topic: topic, DisableBatching: true}), texts(0, 50))
		for at, message := range receivesTexts(s.consumer(pulsar.ConsumerOptions{Topic: topic}), numbers(0, 50)...) {
			expect(message.ID().EntryID() == int64(at), "message %d is %v", at, message.ID())
		}
	}},
	{"every_compression", func(s *scene) {
		topic := s.topic("compressed")
		consumer := s.consumer(pulsar.ConsumerOptions{Topic: topic})
		for kind := pulsar.NoCompression; kind <= pulsar.SNAPPY; kind++ {
			for level := pulsar.Default; level <= pulsar.Better; level++ {
				for _, single := range []bool{true, false} {
					producer := s.producer(pulsar.ProducerOptions{
						Topic: topic, CompressionType: kind, CompressionLevel: level, DisableBatching: single,
					})
					text := strings.Repeat(fmt.Sprint(kind, level, single), 2000)
					sendTogether(producer, []*pulsar.ProducerMessage{{Payload: []byte(text)}, {Payload: []byte(text)}})
					receivesTexts(consumer, text, text)
					producer.Close()
				}
			}
		}
	}},
	{"what_a_message_has_beside_its_payload", func(s *scene) {
		topic := s.topic("beside")
		consumer := s.consumer(pulsar.ConsumerOptions{Topic: topic})
		for _, single := range []bool{true, false} {
			name := fmt.Sprintf("named-%v", single)
			producer := s.producer(pulsar.ProducerOptions{Topic: topic, Name: name, DisableBatching: single})
			when, sequence := time.UnixMilli(1_234_567_890), int64(77)
			send(producer, &pulsar.ProducerMessage{
				Payload: []byte("x"), Key: "ключ", OrderingKey: "order", EventTime: when, SequenceID: &sequence,
				Properties: map[string]string{"a": "1", "empty": "", "ü": "日本"},
			})
			got := receive(consumer)
			expect(got.Key() == "ключ" && got.OrderingKey() == "order", "keys %q %q", got.Key(), got.OrderingKey())
			expect(got.EventTime().Equal(when), "event time %v", got.EventTime())
			expect(len(got.Properties()) == 3 && got.Properties()["ü"] == "日本", "properties %v", got.Properties())
			expect(got.ProducerName() == name && got.Topic() == topic, "%s on %s", got.ProducerName(), got.Topic())
			expect(producer.LastSequenceID() == 77, "last sequence id %d", producer.LastSequenceID())
			producer.Close()
		}
	}},
	{"empty_messages", func(s *scene) {
		topic := s.topic("empty")
		// An empty message is sent in a batch or with properties, because the client takes any other for a broken one.
		producer := s.producer(pulsar.ProducerOptions{Topic: topic})
		send(producer, &pulsar.ProducerMessage{Payload: []byte{}})
		send(producer, &pulsar.ProducerMessage{Payload: nil, Properties: map[string]string{"a": "b"}})
		receivesTexts(s.consumer(pulsar.ConsumerOptions{Topic: topic}), "", "")
	}},
	{"deduplication", func(s *scene) {
		topic := s.topic("dedup")
		s.asks("PUT", path(topic), "")
		s.asks("POST", path(topic)+"/deduplicationEnabled", "true")
		time.Sleep(time.Second)
		for _, single := range []bool{true, false} {
			at := pulsar.ProducerOptions{Topic: topic, Name: fmt.Sprint("p-", single), DisableBatching: single}
			producer := s.producer(at)
			for _, number := range []int64{0, 1, 1, 0, 5, 3, 6} {
				send(producer, &pulsar.ProducerMessage{Payload: []byte(fmt.Sprint(number)), SequenceID: &number})
			}
			producer.Close()
			again := s.producer(at)
			sendText(again, "7")
		}
		consumer := s.consumer(pulsar.ConsumerOptions{Topic: topic})
		receivesTexts(consumer, "0", "1", "5", "6", "7", "0", "1", "5", "6", "7")
		receivesNothing(consumer)
	}},
	{"chunks", func(s *scene) {
		topic := s.topic("chunks")
		large := make([]byte, 11*megabyte)
		rand.Read(large)
		producer := s.producer(pulsar.ProducerOptions{Topic: topic, DisableBatching: true, EnableChunking: true})
		small := s.producer(pulsar.ProducerOptions{
			Topic: topic, DisableBatching: true, EnableChunking: true, ChunkMaxMessageSize: 1000,
		})
		consumer := s.consumer(pulsar.ConsumerOptions{Topic: topic, StartMessageIDInclusive: true})
		sendText(producer, "before")
		id := send(producer, &pulsar.ProducerMessage{Payload: large, Key: "k"})
		send(small, &pulsar.ProducerMessage{Payload: large[:50_000]})
		receivesTexts(consumer, "before")
		got := receive(consumer)
		expect(bytes.Equal(got.Payload(), large) && got.Key() == "k", "the large message came changed")
		expect(got.ID().String() == id.String(), "sent as %v, received as %v", id, got.ID())
		expect(bytes.Equal(receive(consumer).Payload(), large[:50_000]), "the message of many chunks came changed")
		succeeds(consumer.Seek(id))
		expect(bytes.Equal(receive(consumer).Payload(), large), "another message after seek")
		succeeds(consumer.Ack(got))
	}},
	{"too_large", func(s *scene) {
		producer := s.producer(pulsar.ProducerOptions{Topic: s.topic("large"), DisableBatching: true})
		_, err := producer.Send(context.Background(), &pulsar.ProducerMessage{Payload: make([]byte, 6*megabyte)})
		expect(errors.Is(err, pulsar.ErrMessageTooLarge), "%v", err)
		sendText(producer, "still here")
		send(producer, &pulsar.ProducerMessage{Payload: make([]byte, 5*megabyte-200)})
	}},
	{"delayed", func(s *scene) {
		topic := s.topic("delayed")
		producer := s.producer(pulsar.ProducerOptions{Topic: topic})
		consumer := s.consumer(pulsar.ConsumerOptions{Topic: topic, Type: pulsar.Shared})
		began := time.Now()
		send(producer, &pulsar.ProducerMessage{Payload: []byte("at"), DeliverAt: began.Add(3 * time.Second)})
		send(producer, &pulsar.ProducerMessage{Payload: []byte("after"), DeliverAfter: 1500 * time.Millisecond})
		sendText(producer, "now")
		receivesTexts(consumer, "now", "after")
		expect(time.Since(began) > 1400*time.Millisecond, "after %v", time.Since(began))
		receivesTexts(consumer, "at")
		expect(time.Since(began) > 2900*time.Millisecond, "at %v", time.Since(began))
	}},
	{"queue_full", func(s *scene) {
		producer := s.producer(pulsar.ProducerOptions{
			Topic: s.topic("full"), DisableBlockIfQueueFull: true, MaxPendingMessages: 5,
		})
		errs := make(chan error, 300)
		for _, message := range texts(0, 300) {
			producer.SendAsync(context.Background(), message, func(_ pulsar.MessageID, _ *pulsar.ProducerMessage, err error) {
				errs <- err
			})
		}
		all := []error{}
		for len(all) < 300 {
			all = append(all, <-errs)
		}
		full := func(err error) bool { return errors.Is(err, pulsar.ErrSendQueueIsFull) }
		expect(slices.ContainsFunc(all, full), "no full queue")
		sendText(producer, "later")
	}},
	{"exclusive_producer", func(s *scene) {
		topic := s.topic("exclusive")
		first := s.producer(pulsar.ProducerOptions{Topic: topic, ProducerAccessMode: pulsar.ProducerAccessModeExclusive})
		_, err := s.client.CreateProducer(pulsar.ProducerOptions{
			Topic: topic, ProducerAccessMode: pulsar.ProducerAccessModeExclusive,
		})
		refused(err, "ProducerFenced")
		_, err = s.client.CreateProducer(pulsar.ProducerOptions{Topic: topic})
		refused(err, "ProducerBusy")
		waiting := make(chan pulsar.Producer, 1)
		go func() {
			made, _ := s.client.CreateProducer(pulsar.ProducerOptions{
				Topic: topic, ProducerAccessMode: pulsar.ProducerAccessModeWaitForExclusive,
			})
			waiting <- made
		}()
		select {
		case <-waiting:
			panic("the waiting producer did not wait")
		case <-time.After(silence):
		}
		sendText(first, "first")
		first.Close()
		second := <-waiting
		expect(second != nil, "the waiting producer was refused")
		sendText(second, "second")
		receivesTexts(s.consumer(pulsar.ConsumerOptions{Topic: topic}), "first", "second")
	}},
	{"a_name_twice", func(s *scene) {
		once := pulsar.ProducerOptions{Topic: s.topic("name"), Name: "only"}
		producer := s.producer(once)
		expect(producer.Name() == "only", "%s", producer.Name())
		_, err := s.client.CreateProducer(once)
		refused(err, "ProducerBusy")
		other := must(pulsar.NewClient(options(s.broker)))
		defer other.Close()
		_, err = other.CreateProducer(once)
		refused(err, "ProducerBusy")
		producer.Close()
		must(other.CreateProducer(once))
	}},
	{"encryption", encrypted},
}
