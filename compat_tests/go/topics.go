package main

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
)

// javaHash returns Java's String.hashCode without its sign bit.
func javaHash(text string) uint32 {
	hash := uint32(0)
	for _, letter := range text {
		hash = 31*hash + uint32(letter)
	}
	return hash & 0x7fffffff
}

var topics = []check{
	{"partitions_by_key", func(s *scene) {
		topic := s.topic("by-key")
		s.asks("PUT", path(topic)+"/partitions", "4")
		consumer := s.consumer(pulsar.ConsumerOptions{Topic: topic, Type: pulsar.Shared})
		for _, scheme := range []pulsar.HashingScheme{pulsar.JavaStringHash, pulsar.Murmur3_32Hash} {
			producer := s.producer(pulsar.ProducerOptions{Topic: topic, HashingScheme: scheme})
			sent := map[string]int32{}
			for at := range 40 {
				key := fmt.Sprint("key-", at%10)
				id := send(producer, &pulsar.ProducerMessage{Key: key, Payload: []byte("x")})
				before, known := sent[key]
				expect(!known || before == id.PartitionIdx(), "key %s is on %d and %d", key, before, id.PartitionIdx())
				sent[key] = id.PartitionIdx()
				if scheme == pulsar.JavaStringHash {
					expect(id.PartitionIdx() == int32(javaHash(key)%4), "key %s is on %d", key, id.PartitionIdx())
				}
			}
			for _, message := range receiveAll(consumer, 40) {
				partition := sent[message.Key()]
				expect(message.ID().PartitionIdx() == partition, "%v instead of %d", message.ID(), partition)
				expect(message.Topic() == fmt.Sprint(topic, "-partition-", partition), "%s", message.Topic())
				succeeds(consumer.Ack(message))
			}
			producer.Close()
		}
	}},
	{"partitions_as_the_router_says", func(s *scene) {
		topic := s.topic("router")
		s.asks("PUT", path(topic)+"/partitions", "3")
		producer := s.producer(pulsar.ProducerOptions{
			Topic: topic, MessageRouter: func(*pulsar.ProducerMessage, pulsar.TopicMetadata) int { return 2 },
		})
		sendTogether(producer, texts(0, 10))
		receivesTexts(s.consumer(pulsar.ConsumerOptions{Topic: topic + "-partition-2", SubscriptionName: "one"}), numbers(0, 10)...)
		parts := must(s.client.TopicPartitions(topic))
		expect(len(parts) == 3 && parts[2] == topic+"-partition-2", "%v", parts)
		alone := must(s.client.TopicPartitions(s.topic("alone")))
		expect(len(alone) == 1 && alone[0] == s.topic("alone"), "%v", alone)
		last := must(s.consumer(pulsar.ConsumerOptions{Topic: topic}).GetLastMessageIDs())
		entries := []string{}
		for _, each := range last {
			entries = append(entries, fmt.Sprint(each.Topic()[len(each.Topic())-1:], " ", each.EntryID() >= 0))
		}
		slices.Sort(entries)
		expect(slices.Equal(entries, []string{"0 false", "1 false", "2 true"}), "%v", entries)
	}},
	{"partitions_that_come_later", func(s *scene) {
		topic := s.topic("growing")
		s.asks("PUT", path(topic)+"/partitions", "1")
		producer := s.producer(pulsar.ProducerOptions{
			Topic: topic, DisableBatching: true, PartitionsAutoDiscoveryInterval: time.Second,
		})
		consumer := s.consumer(pulsar.ConsumerOptions{Topic: topic, Type: pulsar.Shared, AutoDiscoveryPeriod: time.Second})
		sendText(producer, "first")
		receivesTexts(consumer, "first")
		s.asks("POST", path(topic)+"/partitions", "3")
		seen, sent := map[int32]bool{}, 0
		eventually("messages from three partitions", func() bool {
			sendText(producer, fmt.Sprint(sent))
			sent++
			seen[receive(consumer).ID().PartitionIdx()] = true
			return len(seen) == 3
		})
	}},
	{"partitions_seek_by_time", func(s *scene) {
		topic := s.topic("parts-time")
		s.asks("PUT", path(topic)+"/partitions", "3")
		producer := s.producer(pulsar.ProducerOptions{Topic: topic, DisableBatching: true})
		consumer := s.consumer(pulsar.ConsumerOptions{Topic: topic})
		sendNumbers(producer, 6)
		receiveAll(consumer, 6)
		succeeds(consumer.SeekByTime(time.Now().Add(-time.Hour)))
		receiveAll(consumer, 6)
		receivesNothing(consumer)
	}},
	{"several_topics", func(s *scene) {
		names := []string{s.topic("several-a"), s.topic("several-b"), s.topic("several-c")}
		s.asks("PUT", path(names[2])+"/partitions", "2")
		consumer := s.consumer(pulsar.ConsumerOptions{Topics: names, Type: pulsar.Shared, AckWithResponse: true})
		for _, name := range names {
			sendTogether(s.producer(pulsar.ProducerOptions{Topic: name}), texts(0, 4))
		}
		came := map[string]int{}
		ids := []pulsar.MessageID{}
		for _, message := range receiveAll(consumer, 12) {
			base, _, _ := strings.Cut(message.Topic(), "-partition-")
			came[base]++
			ids = append(ids, message.ID())
		}
		for _, name := range names {
			expect(came[name] == 4, "%v", came)
		}
		succeeds(consumer.AckIDList(ids))
		succeeds(consumer.Unsubscribe())
	}},
	{"topics_by_pattern", func(s *scene) {
		for _, address := range []string{s.broker, s.web} {
			client := must(pulsar.NewClient(options(address)))
			defer client.Close()
			host := must(url.Parse(address)).Scheme
			base := "persistent://public/default/pattern-" + host + "-" + s.run + "-"
			sendText(s.producer(pulsar.ProducerOptions{Topic: base + "1"}), "1")
			sendText(s.producer(pulsar.ProducerOptions{Topic: strings.Replace(base, "pattern", "other", 1)}), "other")
			consumer := must(client.Subscribe(pulsar.ConsumerOptions{
				TopicsPattern: base + ".*", SubscriptionName: "s", AutoDiscoveryPeriod: time.Second, Type: pulsar.Shared,
				SubscriptionInitialPosition: pulsar.SubscriptionPositionEarliest,
			}))
			receivesTexts(consumer, "1")
			sendText(s.producer(pulsar.ProducerOptions{Topic: base + "2"}), "2")
			s.asks("PUT", path(base+"3")+"/partitions", "2")
			receivesTexts(consumer, "2")
			sendText(s.producer(pulsar.ProducerOptions{Topic: base + "3"}), "3")
			receivesTexts(consumer, "3")
			receivesNothing(consumer)
		}
	}},
	{"lookup_over_http", func(s *scene) {
		client := must(pulsar.NewClient(options(s.web)))
		defer client.Close()
		topic := s.topic("http")
		s.asks("PUT", path(topic)+"/partitions", "2")
		producer := must(client.CreateProducer(pulsar.ProducerOptions{Topic: topic, Schema: pulsar.NewStringSchema(nil)}))
		send(producer, &pulsar.ProducerMessage{Value: "hello"})
		consumer := must(client.Subscribe(pulsar.ConsumerOptions{
			Topic: topic, SubscriptionName: "s", SubscriptionInitialPosition: pulsar.SubscriptionPositionEarliest,
			Schema: pulsar.NewStringSchema(nil),
		}))
		var value *string
		succeeds(receive(consumer).GetSchemaValue(&value))
		expect(*value == "hello", "%q", *value)
	}},
	{"topics_that_are_not_there", func(s *scene) {
		namespace := "public/strict-" + s.run
		s.asks("PUT", "namespaces/"+namespace, "")
		s.asks("POST", "namespaces/"+namespace+"/autoTopicCreation", `{"allowAutoTopicCreation": false}`)
		_, err := s.client.CreateProducer(pulsar.ProducerOptions{Topic: namespace + "/none"})
		refused(err, "TopicNotFound")
		_, err = s.client.Subscribe(pulsar.ConsumerOptions{Topic: namespace + "/none", SubscriptionName: "s"})
		refused(err, "TopicNotFound")
		_, err = s.client.CreateProducer(pulsar.ProducerOptions{Topic: "public/missing-" + s.run + "/t"})
		refused(err, "TopicNotFound", "Namespace not found")
		s.asks("PUT", "persistent/"+namespace+"/there", "")
		s.asks("POST", "namespaces/"+namespace+"/autoSubscriptionCreation", `{"allowAutoSubscriptionCreation": false}`)
		_, err = s.client.Subscribe(pulsar.ConsumerOptions{Topic: namespace + "/there", SubscriptionName: "s"})
		refused(err, "SubscriptionNotFound")
	}},
	{"terminated", func(s *scene) {
		topic := s.topic("terminated")
		producer := s.producer(pulsar.ProducerOptions{Topic: topic, SendTimeout: patience})
		consumer := s.consumer(pulsar.ConsumerOptions{Topic: topic})
		sendNumbers(producer, 3)
		s.asks("POST", path(topic)+"/terminate", "")
		ctx, cancel := soon()
		defer cancel()
		_, err := producer.Send(ctx, &pulsar.ProducerMessage{Payload: []byte("late")})
		refused(err, "TopicTerminated", "topic terminated", "producer already been closed")
		_, err = s.client.CreateProducer(pulsar.ProducerOptions{Topic: topic})
		refused(err, "TopicTerminated", "topic terminated")
		for _, message := range receivesTexts(consumer, numbers(0, 3)...) {
			succeeds(consumer.Ack(message))
		}
		receivesNothing(consumer)
	}},
	{"full_backlog", func(s *scene) {
		namespace := "public/quota-" + s.run
		s.asks("PUT", "namespaces/"+namespace, "")
		topic := "persistent://" + namespace + "/t"
		s.consumer(pulsar.ConsumerOptions{Topic: topic})
		with := pulsar.ProducerOptions{Topic: topic, DisableBatching: true, MaxReconnectToBroker: new(uint)}
		producer := s.producer(with)
		send(producer, &pulsar.ProducerMessage{Payload: make([]byte, 100_000)})
		s.asks("POST", "namespaces/"+namespace+"/backlogQuota", `{"limitSize": 1000, "policy": "producer_exception"}`)
		producer.Close()
		var err error
		eventually("a producer is refused", func() bool {
			var made pulsar.Producer
			if made, err = s.client.CreateProducer(with); err == nil {
				made.Close()
			}
			return err != nil
		})
		refused(err, "ProducerBlockedQuotaExceededException")
	}},
	{"no_transactions", func(s *scene) {
		with := options(s.broker)
		with.EnableTransaction = true
		_, err := pulsar.NewClient(with)
		refused(err, "Transactions are not enabled", "TransactionCoordinatorNotEnabled")
		_, err = s.client.NewTransaction(time.Second)
		expect(err != nil, "a transaction of a client without them")
	}},
}
