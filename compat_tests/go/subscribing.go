package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
)

// activity holds what a Failover consumer was told last: 1 for active, -1 for inactive.
type activity struct{ atomic.Int32 }

func (a *activity) BecameActive(pulsar.Consumer, string, int32)   { a.Store(1) }
func (a *activity) BecameInactive(pulsar.Consumer, string, int32) { a.Store(-1) }

// drain receives from several consumers until so many messages have come, and acknowledges them.
func drain(count int, consumers ...pulsar.Consumer) [][]pulsar.Message {
	got, total := make([][]pulsar.Message, len(consumers)), 0
	for end := time.Now().Add(patience); total < count; {
		expect(time.Now().Before(end), "%d of %d messages came", total, count)
		for at, consumer := range consumers {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
			message, err := consumer.Receive(ctx)
			cancel()
			if err == nil {
				got[at] = append(got[at], message)
				succeeds(consumer.Ack(message))
				total++
			}
		}
	}
	return got
}

func sendKeyed(producer pulsar.Producer, count int, ordering bool) {
	messages := texts(0, count)
	for at, message := range messages {
		message.Key = fmt.Sprint("key-", at%20)
		if ordering {
			message.Key, message.OrderingKey = fmt.Sprint("other-", at), message.Key
		}
	}
	sendTogether(producer, messages)
}

// keysStay checks that each key's messages go to one consumer, in order, and that no consumer is without keys.
func keysStay(got [][]pulsar.Message) {
	owner, last := map[string]int{}, map[string]int{}
	for at, messages := range got {
		expect(len(messages) > 0, "consumer %d had no message", at)
		for _, message := range messages {
			key, number := message.OrderingKey(), 0
			if key == "" {
				key = message.Key()
			}
			fmt.Sscan(string(message.Payload()), &number)
			before, known := owner[key]
			expect(!known || before == at, "key %s went to %d and %d", key, before, at)
			expect(!known || last[key] < number, "key %s: %d after %d", key, number, last[key])
			owner[key], last[key] = at, number
		}
	}
}

var subscriptions = []check{
	{"exclusive_is_busy", func(s *scene) {
		with := pulsar.ConsumerOptions{Topic: s.topic("one"), SubscriptionName: "s"}
		consumer := s.consumer(with)
		_, err := s.client.Subscribe(with)
		refused(err, "ConsumerBusy")
		with.Type = pulsar.Shared
		_, err = s.client.Subscribe(with)
		refused(err, "ConsumerBusy")
		consumer.Close()
		s.consumer(with)
	}},
	{"shared_splits", func(s *scene) {
		with := pulsar.ConsumerOptions{Topic: s.topic("shared"), Type: pulsar.Shared, ReceiverQueueSize: 10}
		first, second := s.consumer(with), s.consumer(with)
		sendTogether(s.producer(pulsar.ProducerOptions{Topic: with.Topic, DisableBatching: true}), texts(0, 100))
		got := drain(100, first, second)
		expect(len(got[0]) > 20 && len(got[1]) > 20, "%d and %d", len(got[0]), len(got[1]))
	}},
	{"failover_is_told_at_once", func(s *scene) {
		for at := range 5 {
			told := &activity{}
			s.consumer(pulsar.ConsumerOptions{
				Topic: s.topic(fmt.Sprint("told-", at)), Type: pulsar.Failover, EventListener: told,
			})
			eventually("told that it is active", func() bool { return told.Load() == 1 })
		}
	}},
	{"failover_takes_over", func(s *scene) {
		topic, told := s.topic("failover"), []*activity{{}, {}}
		with := pulsar.ConsumerOptions{Topic: topic, Type: pulsar.Failover, Name: "a", EventListener: told[0]}
		producer := s.producer(pulsar.ProducerOptions{Topic: topic})
		consumers := []pulsar.Consumer{s.consumer(with)}
		with.Name, with.EventListener = "b", told[1]
		consumers = append(consumers, s.consumer(with))
		eventually("one is told that it is active, one that it is not", func() bool {
			return told[0].Load()*told[1].Load() == -1
		})
		sendNumbers(producer, 10)
		got := drain(10, consumers...)
		active := 0
		if len(got[0]) == 0 {
			active = 1
		}
		expect(len(got[active]) == 10, "%d and %d", len(got[0]), len(got[1]))
		consumers[active].Close()
		sendText(producer, "next")
		receivesTexts(consumers[1-active], "next")
	}},
	{"key_shared", func(s *scene) {
		for _, batches := range []pulsar.ProducerOptions{
			{DisableBatching: true}, {BatcherBuilderType: pulsar.KeyBasedBatchBuilder},
		} {
			for _, ordering := range []bool{false, true} {
				topic := s.topic(fmt.Sprint("key-shared-", batches.DisableBatching, ordering))
				with := pulsar.ConsumerOptions{Topic: topic, Type: pulsar.KeyShared}
				first, second, third := s.consumer(with), s.consumer(with), s.consumer(with)
				batches.Topic = topic
				sendKeyed(s.producer(batches), 200, ordering)
				keysStay(drain(200, first, second, third))
			}
		}
	}},
	{"key_shared_sticky", func(s *scene) {
		with := pulsar.ConsumerOptions{Topic: s.topic("sticky"), Type: pulsar.KeyShared, SubscriptionName: "s"}
		with.KeySharedPolicy = must(pulsar.NewKeySharedPolicySticky([]int{0, 30000}))
		first := s.consumer(with)
		_, err := s.client.Subscribe(with)
		refused(err, "ConsumerAssignError")
		with.KeySharedPolicy = must(pulsar.NewKeySharedPolicySticky([]int{30001, 50000, 50001, 65535}))
		second := s.consumer(with)
		sendKeyed(s.producer(pulsar.ProducerOptions{Topic: with.Topic, DisableBatching: true}), 100, false)
		keysStay(drain(100, first, second))
		with.KeySharedPolicy = &pulsar.KeySharedPolicy{Mode: pulsar.KeySharedPolicyModeAutoSplit}
		_, err = s.client.Subscribe(with)
		refused(err, "ConsumerBusy")
	}},
	{"a_key_waits_for_its_owner", func(s *scene) {
		with := pulsar.ConsumerOptions{Topic: s.topic("waits"), Type: pulsar.KeyShared}
		first := s.consumer(with)
		producer := s.producer(pulsar.ProducerOptions{Topic: with.Topic, DisableBatching: true})
		sendKeyed(producer, 20, false)
		held := receiveAll(first, 20)
		second := s.consumer(with)
		sendKeyed(producer, 20, false)
		receivesNothing(second)
		for _, message := range held {
			succeeds(first.Ack(message))
		}
		keysStay(drain(20, first, second))
	}},
	{"unsubscribe", func(s *scene) {
		topic := s.topic("unsubscribe")
		has := func(name string) bool {
			return strings.Contains(s.asks("GET", path(topic)+"/subscriptions", ""), `"`+name+`"`)
		}
		consumer := s.consumer(pulsar.ConsumerOptions{Topic: topic, SubscriptionName: "gone"})
		expect(has("gone"), "no subscription")
		succeeds(consumer.Unsubscribe())
		expect(!has("gone"), "the subscription is still there")
		with := pulsar.ConsumerOptions{Topic: topic, SubscriptionName: "held", Type: pulsar.Shared}
		first := s.consumer(with)
		s.consumer(with)
		refused(first.Unsubscribe(), "MetadataError")
		expect(has("held"), "the refused one took the subscription away")
	}},
	{"forced_unsubscribe", func(s *scene) {
		topic := s.topic("forced")
		with := pulsar.ConsumerOptions{Topic: topic, SubscriptionName: "s", Type: pulsar.Shared, MaxReconnectToBroker: new(uint)}
		first := s.consumer(with)
		s.consumer(with)
		succeeds(first.UnsubscribeForce())
	}},
	{"what_statistics_say", func(s *scene) {
		topic := s.topic("stats")
		s.producer(pulsar.ProducerOptions{Topic: topic, Name: "prod", Properties: map[string]string{"pk": "pv"}})
		s.consumer(pulsar.ConsumerOptions{
			Topic: topic, Name: "cons", Properties: map[string]string{"ck": "cv"},
			SubscriptionProperties: map[string]string{"sk": "sv"},
		})
		text := s.asks("GET", path(topic)+"/stats", "")
		for _, part := range []string{`"prod"`, `"pk":"pv"`, `"cons"`, `"ck":"cv"`, `"sk":"sv"`, `"clientVersion":"Pulsar-Go-`} {
			expect(strings.Contains(text, part), "no %s in %s", part, text)
		}
	}},
	{"not_durable", func(s *scene) {
		topic := s.topic("fleeting")
		sendNumbers(s.producer(pulsar.ProducerOptions{Topic: topic}), 3)
		with := pulsar.ConsumerOptions{Topic: topic, SubscriptionMode: pulsar.NonDurable}
		consumer := s.consumer(with)
		for _, message := range receivesTexts(consumer, numbers(0, 3)...) {
			succeeds(consumer.Ack(message))
		}
		consumer.Close()
		eventually("the subscription is gone", func() bool {
			return s.asks("GET", path(topic)+"/subscriptions", "") == "[]"
		})
		receivesTexts(s.consumer(with), numbers(0, 3)...)
	}},
	{"compacted", func(s *scene) {
		topic := s.topic("compacted")
		producer := s.producer(pulsar.ProducerOptions{Topic: topic, BatchingMaxPublishDelay: 10 * time.Millisecond})
		s.consumer(pulsar.ConsumerOptions{Topic: topic, SubscriptionName: "holds"})
		sendKeyed(producer, 100, false)
		send(producer, &pulsar.ProducerMessage{Key: "key-3", Payload: []byte{}})
		s.asks("PUT", path(topic)+"/compaction", "")
		eventually("compacted", func() bool {
			return strings.Contains(s.asks("GET", path(topic)+"/compaction", ""), "SUCCESS")
		})
		wanted := slices.Delete(numbers(80, 100), 3, 4)
		receivesTexts(s.consumer(pulsar.ConsumerOptions{Topic: topic, ReadCompacted: true}), wanted...)
		_, err := s.client.Subscribe(pulsar.ConsumerOptions{
			Topic: topic, SubscriptionName: "t", Type: pulsar.Shared, ReadCompacted: true,
		})
		refused(err, "NotAllowedError", "read compacted")
	}},
}
