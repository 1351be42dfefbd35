package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
)

func short(delay time.Duration) pulsar.ConsumerOptions {
	return pulsar.ConsumerOptions{Type: pulsar.Shared, NackRedeliveryDelay: delay}
}

var consuming = []check{
	{"nack_brings_it_again", func(s *scene) {
		with := short(300 * time.Millisecond)
		with.Topic = s.topic("nack")
		sendNumbers(s.producer(pulsar.ProducerOptions{Topic: with.Topic}), 3)
		consumer := s.consumer(with)
		got := receivesTexts(consumer, "0", "1", "2")
		succeeds(consumer.Ack(got[0]))
		consumer.Nack(got[1])
		succeeds(consumer.Ack(got[2]))
		for count := uint32(1); count < 4; count++ {
			again := receive(consumer)
			expect(string(again.Payload()) == "1" && again.RedeliveryCount() == count,
				"%q with count %d instead of %d", again.Payload(), again.RedeliveryCount(), count)
			consumer.NackID(again.ID())
		}
		succeeds(consumer.Ack(receive(consumer)))
		receivesNothing(consumer)
	}},
	{"nack_in_a_batch", func(s *scene) {
		with := short(300 * time.Millisecond)
		with.Topic, with.EnableBatchIndexAcknowledgment = s.topic("nack-batch"), true
		sendTogether(s.producer(pulsar.ProducerOptions{Topic: with.Topic}), texts(0, 5))
		consumer := s.consumer(with)
		for at, message := range receivesTexts(consumer, numbers(0, 5)...) {
			if at == 2 {
				consumer.Nack(message)
			} else {
				succeeds(consumer.Ack(message))
			}
		}
		again := receivesTexts(consumer, "2")
		succeeds(consumer.Ack(again[0]))
		receivesNothing(consumer)
	}},
	{"nack_backoff", func(s *scene) {
		with := pulsar.ConsumerOptions{Topic: s.topic("backoff"), Type: pulsar.Shared, EnableDefaultNackBackoffPolicy: true}
		sendNumbers(s.producer(pulsar.ProducerOptions{Topic: with.Topic}), 1)
		consumer := s.consumer(with)
		consumer.Nack(receive(consumer))
		began := time.Now()
		expect(receive(consumer).RedeliveryCount() == 1, "another count")
		expect(time.Since(began) > 500*time.Millisecond, "after %v", time.Since(began))
	}},
	{"dead_letters", func(s *scene) {
		with := short(200 * time.Millisecond)
		with.Topic = s.topic("dlq")
		with.DLQ = &pulsar.DLQPolicy{MaxDeliveries: 2, DeadLetterTopic: s.topic("dead"), InitialSubscriptionName: "kept"}
		producer := s.producer(pulsar.ProducerOptions{Topic: with.Topic})
		send(producer, &pulsar.ProducerMessage{Payload: []byte("bad"), Key: "k", Properties: map[string]string{"p": "v"}})
		consumer := s.consumer(with)
		for range 2 {
			consumer.Nack(receive(consumer))
		}
		receivesNothing(consumer)
		// The client made this subscription before the first dead letter, so it gets that one.
		dead := must(s.client.Subscribe(pulsar.ConsumerOptions{
			Topic: with.DLQ.DeadLetterTopic, SubscriptionName: "kept", Type: pulsar.Shared,
		}))
		letter := receive(dead)
		properties := letter.Properties()
		expect(string(letter.Payload()) == "bad" && letter.Key() == "k" && properties["p"] == "v", "%v", properties)
		expect(properties["REAL_TOPIC"] == with.Topic, "%v", properties)
		eventually("no backlog is left", func() bool {
			return strings.Contains(s.asks("GET", path(with.Topic)+"/stats", ""), `"msgBacklog":0`)
		})
	}},
	{"retry_letters", func(s *scene) {
		topic := s.topic("retried")
		with := short(200 * time.Millisecond)
		with.Topic, with.RetryEnable = topic, true
		with.DLQ = &pulsar.DLQPolicy{MaxDeliveries: 2, DeadLetterTopic: topic + "-s-DLQ", RetryLetterTopic: topic + "-s-RETRY"}
		sendText(s.producer(pulsar.ProducerOptions{Topic: topic}), "later")
		consumer := s.consumer(with)
		dead := s.consumer(pulsar.ConsumerOptions{Topic: with.DLQ.DeadLetterTopic})
		for at := range 3 {
			got := receive(consumer)
			times := got.Properties()["RECONSUMETIMES"]
			expect(at == 0 && times == "" || times == fmt.Sprint(at), "time %d has %q", at, times)
			consumer.ReconsumeLaterWithCustomProperties(got, map[string]string{"why": "busy"}, 500*time.Millisecond)
		}
		letter := receive(dead)
		expect(string(letter.Payload()) == "later" && letter.Properties()["why"] == "busy", "%v", letter.Properties())
	}},
	{"cumulative_acks", func(s *scene) {
		topic := s.topic("cumulative")
		producer := s.producer(pulsar.ProducerOptions{Topic: topic, BatchingMaxMessages: 10, BatchingMaxPublishDelay: time.Second})
		sendTogether(producer, texts(0, 100))
		with := pulsar.ConsumerOptions{Topic: topic, EnableBatchIndexAcknowledgment: true, AckWithResponse: true}
		consumer := s.consumer(with)
		got := receivesTexts(consumer, numbers(0, 100)...)
		succeeds(consumer.AckCumulative(got[54]))
		consumer.Close()
		consumer = s.consumer(with)
		got = receivesTexts(consumer, numbers(55, 100)...)
		succeeds(consumer.AckIDCumulative(got[44].ID()))
		consumer.Close()
		receivesNothing(s.consumer(with))
		with.SubscriptionName, with.Type = "shared", pulsar.Shared
		shared := s.consumer(with)
		expect(shared.AckCumulative(receive(shared)) != nil, "a cumulative ack of a shared subscription")
	}},
	{"acks_within_a_batch", func(s *scene) {
		topic := s.topic("indexes")
		sendTogether(s.producer(pulsar.ProducerOptions{Topic: topic, BatchingMaxPublishDelay: time.Second}), texts(0, 10))
		for _, answered := range []bool{true, false} {
			with := pulsar.ConsumerOptions{
				Topic: topic, EnableBatchIndexAcknowledgment: true, AckWithResponse: answered, SubscriptionName: fmt.Sprint(answered),
				Type: pulsar.Shared,
			}
			consumer := s.consumer(with)
			for at, message := range receivesTexts(consumer, numbers(0, 10)...) {
				if at%3 != 0 {
					succeeds(consumer.Ack(message))
				}
			}
			consumer.Close()
			consumer = s.consumer(with)
			receivesTexts(consumer, "0", "3", "6", "9")
			receivesNothing(consumer)
		}
	}},
	{"acks_that_are_answered", func(s *scene) {
		topic := s.topic("answered")
		sendNumbers(s.producer(pulsar.ProducerOptions{Topic: topic}), 20)
		with := pulsar.ConsumerOptions{Topic: topic, AckWithResponse: true, Type: pulsar.Shared}
		consumer := s.consumer(with)
		got, ids := receivesTexts(consumer, numbers(0, 20)...), []pulsar.MessageID{}
		for _, message := range got[:15] {
			ids = append(ids, message.ID())
		}
		succeeds(consumer.AckIDList(ids))
		succeeds(consumer.Ack(got[15]))
		succeeds(consumer.AckID(got[15].ID()))
		succeeds(consumer.AckID(must(pulsar.DeserializeMessageID(got[16].ID().Serialize()))))
		consumer.Close()
		consumer = s.consumer(with)
		receivesTexts(consumer, "17", "18", "19")
	}},
	{"unacknowledged_comes_again", func(s *scene) {
		topic := s.topic("again")
		sendNumbers(s.producer(pulsar.ProducerOptions{Topic: topic}), 6)
		with := pulsar.ConsumerOptions{Topic: topic, Type: pulsar.Shared, AckGroupingOptions: &pulsar.AckGroupingOptions{MaxSize: 1}}
		consumer := s.consumer(with)
		got := receivesTexts(consumer, numbers(0, 6)...)
		succeeds(consumer.Ack(got[1]))
		succeeds(consumer.Ack(got[4]))
		consumer.Close()
		receivesTexts(s.consumer(with), "0", "2", "3", "5")
	}},
	{"zero_queue", func(s *scene) {
		topic := s.topic("zero")
		with := pulsar.ConsumerOptions{Topic: topic, EnableZeroQueueConsumer: true, Type: pulsar.Shared}
		consumer, other := s.consumer(with), s.consumer(with)
		sendNumbers(s.producer(pulsar.ProducerOptions{Topic: topic, DisableBatching: true}), 10)
		for at := range 5 {
			receivesTexts(consumer, fmt.Sprint(2*at))
			receivesTexts(other, fmt.Sprint(2*at+1))
		}
	}},
	{"messages_through_a_channel", func(s *scene) {
		topic := s.topic("channel")
		queue := make(chan pulsar.ConsumerMessage, 10)
		s.consumer(pulsar.ConsumerOptions{Topic: topic, MessageChannel: queue, EnableAutoScaledReceiverQueueSize: true})
		sendNumbers(s.producer(pulsar.ProducerOptions{Topic: topic}), 30)
		for _, number := range numbers(0, 30) {
			got := <-queue
			expect(string(got.Payload()) == number, "%q instead of %s", got.Payload(), number)
			succeeds(got.Ack(got.Message))
		}
	}},
	{"non_persistent", func(s *scene) {
		topic := strings.Replace(s.topic("memory"), "persistent", "non-persistent", 1)
		consumer := s.consumer(pulsar.ConsumerOptions{Topic: topic, Type: pulsar.Shared})
		sendTogether(s.producer(pulsar.ProducerOptions{Topic: topic}), texts(0, 20))
		for _, message := range receivesTexts(consumer, numbers(0, 20)...) {
			succeeds(consumer.Ack(message))
		}
	}},
}
