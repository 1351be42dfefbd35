package main

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
)

func (s *scene) reader(options pulsar.ReaderOptions) pulsar.Reader {
	return must(s.client.CreateReader(options))
}

func reads(reader pulsar.Reader, wanted ...string) {
	for _, text := range wanted {
		ctx, cancel := soon()
		expect(reader.HasNext(), "nothing follows instead of %s", text)
		message := must(reader.Next(ctx))
		cancel()
		expect(string(message.Payload()) == text, "read %q instead of %q", message.Payload(), text)
	}
}

func ends(reader pulsar.Reader) {
	expect(!reader.HasNext(), "something follows the end")
}

// filled makes a topic with the messages 0 to 19 in batches of five, and returns their ids.
func (s *scene) filled(name string, single bool) (string, []pulsar.MessageID) {
	topic := s.topic(fmt.Sprint(name, "-", single))
	with := pulsar.ProducerOptions{
		Topic: topic, DisableBatching: single, BatchingMaxMessages: 5, BatchingMaxPublishDelay: 5 * time.Second,
	}
	sendTogether(s.producer(with), texts(0, 20))
	ids := []pulsar.MessageID{}
	consumer := s.consumer(pulsar.ConsumerOptions{Topic: topic, SubscriptionName: "filling"})
	for _, message := range receiveAll(consumer, 20) {
		ids = append(ids, message.ID())
	}
	return topic, ids
}

var reading = []check{
	{"reader_from_the_ends", func(s *scene) {
		for _, single := range []bool{true, false} {
			topic, _ := s.filled("ends", single)
			earliest := s.reader(pulsar.ReaderOptions{Topic: topic, StartMessageID: pulsar.EarliestMessageID()})
			reads(earliest, numbers(0, 20)...)
			ends(earliest)
			latest := s.reader(pulsar.ReaderOptions{Topic: topic, StartMessageID: pulsar.LatestMessageID()})
			ends(latest)
			fresh := make(chan string, 1)
			go func() {
				ctx, cancel := soon()
				defer cancel()
				if message, err := latest.Next(ctx); err == nil {
					fresh <- string(message.Payload())
				}
				close(fresh)
			}()
			last := s.reader(pulsar.ReaderOptions{
				Topic: topic, StartMessageID: pulsar.LatestMessageID(), StartMessageIDInclusive: true,
			})
			reads(last, "19")
			ends(last)
			sendText(s.producer(pulsar.ProducerOptions{Topic: topic}), "new")
			for _, reader := range []pulsar.Reader{earliest, last} {
				reads(reader, "new")
				ends(reader)
			}
			got := <-fresh
			expect(got == "new", "%q is new", got)
		}
	}},
	{"reader_from_a_message", func(s *scene) {
		for _, single := range []bool{true, false} {
			topic, ids := s.filled("from", single)
			for _, at := range []int{0, 4, 7, 15, 19} {
				after := s.reader(pulsar.ReaderOptions{Topic: topic, StartMessageID: ids[at]})
				reads(after, numbers(at+1, 20)...)
				ends(after)
				with := s.reader(pulsar.ReaderOptions{Topic: topic, StartMessageID: ids[at], StartMessageIDInclusive: true})
				reads(with, numbers(at, 20)...)
				ends(with)
			}
		}
	}},
	{"reader_of_an_empty_topic", func(s *scene) {
		topic := s.topic("nothing")
		for _, start := range []pulsar.MessageID{pulsar.EarliestMessageID(), pulsar.LatestMessageID()} {
			ends(s.reader(pulsar.ReaderOptions{Topic: topic, StartMessageID: start}))
			ends(s.reader(pulsar.ReaderOptions{Topic: topic, StartMessageID: start, StartMessageIDInclusive: true}))
		}
	}},
	{"reader_seeks", func(s *scene) {
		for _, single := range []bool{true, false} {
			topic, ids := s.filled("seeking", single)
			reader := s.reader(pulsar.ReaderOptions{Topic: topic, StartMessageID: pulsar.EarliestMessageID()})
			reads(reader, numbers(0, 20)...)
			succeeds(reader.Seek(ids[12]))
			reads(reader, numbers(13, 20)...)
			last := must(reader.GetLastMessageID())
			expect(last.EntryID() == ids[19].EntryID() && last.BatchIdx() == ids[19].BatchIdx(), "%v is last, not %v", last, ids[19])
		}
	}},
	{"reader_seeks_by_time", func(s *scene) {
		topic, _ := s.filled("reader-time", true)
		reader := s.reader(pulsar.ReaderOptions{Topic: topic, StartMessageID: pulsar.EarliestMessageID()})
		reads(reader, numbers(0, 20)...)
		succeeds(reader.SeekByTime(time.Now().Add(-time.Hour)))
		reads(reader, numbers(0, 20)...)
		ends(reader)
	}},
	{"reader_of_partitions", func(s *scene) {
		topic := s.topic("parts")
		s.asks("PUT", path(topic)+"/partitions", "3")
		sendTogether(s.producer(pulsar.ProducerOptions{Topic: topic, DisableBatching: true}), texts(0, 30))
		reader := s.reader(pulsar.ReaderOptions{Topic: topic, StartMessageID: pulsar.EarliestMessageID()})
		seen := map[string]bool{}
		for reader.HasNext() {
			ctx, cancel := soon()
			seen[string(must(reader.Next(ctx)).Payload())] = true
			cancel()
		}
		expect(len(seen) == 30, "%d messages", len(seen))
	}},
	{"seek_to_a_message", func(s *scene) {
		for _, single := range []bool{true, false} {
			topic, ids := s.filled("seek", single)
			with := pulsar.ConsumerOptions{Topic: topic, StartMessageIDInclusive: true}
			for _, with.Type = range []pulsar.SubscriptionType{pulsar.Exclusive, pulsar.Shared, pulsar.Failover, pulsar.KeyShared} {
				with.SubscriptionName = fmt.Sprint("s", with.Type)
				consumer := s.consumer(with)
				for _, message := range receivesTexts(consumer, numbers(0, 20)...) {
					succeeds(consumer.Ack(message))
				}
				for _, at := range []int{10, 0, 15, 19} {
					succeeds(consumer.Seek(ids[at]))
					receivesTexts(consumer, numbers(at, 20)...)
				}
				consumer.Close()
			}
		}
	}},
	{"seek_to_a_time", func(s *scene) {
		topic := s.topic("time")
		producer, consumer := s.producer(pulsar.ProducerOptions{Topic: topic}), s.consumer(pulsar.ConsumerOptions{Topic: topic})
		sendNumbers(producer, 5)
		time.Sleep(200 * time.Millisecond)
		between := time.Now()
		time.Sleep(200 * time.Millisecond)
		sendText(producer, numbers(5, 10)...)
		receivesTexts(consumer, numbers(0, 10)...)
		succeeds(consumer.SeekByTime(between))
		receivesTexts(consumer, numbers(5, 10)...)
		succeeds(consumer.SeekByTime(time.Now().Add(time.Hour)))
		receivesNothing(consumer)
		succeeds(consumer.SeekByTime(time.Now().Add(-time.Hour)))
		receivesTexts(consumer, numbers(0, 10)...)
	}},
	{"last_message_ids", func(s *scene) {
		topic, ids := s.filled("last", false)
		got := must(s.consumer(pulsar.ConsumerOptions{Topic: topic}).GetLastMessageIDs())
		expect(len(got) == 1 && got[0].Topic() == topic, "%v", got)
		expect(got[0].EntryID() == ids[19].EntryID() && got[0].BatchIdx() == 4, "%v", got[0])
		empty := must(s.consumer(pulsar.ConsumerOptions{Topic: s.topic("last-empty")}).GetLastMessageIDs())
		expect(empty[0].EntryID() == -1, "%v of an empty topic", empty[0])
	}},
	{"table_view", func(s *scene) {
		topic := s.topic("table")
		producer := s.producer(pulsar.ProducerOptions{Topic: topic, Schema: pulsar.NewStringSchema(nil)})
		put := func(key, value string) {
			send(producer, &pulsar.ProducerMessage{Key: key, Value: value})
		}
		put("a", "1")
		put("b", "2")
		put("a", "3")
		var kind *string
		view := must(s.client.CreateTableView(pulsar.TableViewOptions{
			Topic: topic, Schema: pulsar.NewStringSchema(nil), SchemaValueType: reflect.TypeOf(kind),
		}))
		value := func(key string) string {
			text, is := view.Get(key).(*string)
			if !is {
				return "nothing"
			}
			return *text
		}
		eventually("two keys", func() bool { return view.Size() == 2 && value("a") == "3" && value("b") == "2" })
		put("c", "4")
		put("b", "5")
		eventually("three keys", func() bool { return view.Size() == 3 && value("c") == "4" && value("b") == "5" })
		send(producer, &pulsar.ProducerMessage{Key: "a", Payload: []byte{}})
		eventually("a key is gone", func() bool { return !view.ContainsKey("a") })
	}},
	{"receive_gives_up", func(s *scene) {
		consumer := s.consumer(pulsar.ConsumerOptions{Topic: s.topic("give-up")})
		ctx, cancel := context.WithTimeout(context.Background(), silence)
		defer cancel()
		_, err := consumer.Receive(ctx)
		expect(err != nil && strings.Contains(err.Error(), "deadline"), "%v", err)
	}},
}
