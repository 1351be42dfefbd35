package main

import (
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
)

// transactional returns a client that uses transactions. They are switched on at the server.
func transactional(broker string) pulsar.Client {
	made := options(broker)
	made.EnableTransaction = true
	return must(pulsar.NewClient(made))
}

func (s *scene) begin() pulsar.Transaction {
	return must(s.client.NewTransaction(time.Minute))
}

func commit(transaction pulsar.Transaction) {
	ctx, cancel := soon()
	defer cancel()
	succeeds(transaction.Commit(ctx))
}

func abort(transaction pulsar.Transaction) {
	ctx, cancel := soon()
	defer cancel()
	succeeds(transaction.Abort(ctx))
}

func sendIn(transaction pulsar.Transaction, producer pulsar.Producer, texts ...string) {
	for _, text := range texts {
		send(producer, &pulsar.ProducerMessage{Payload: []byte(text), Transaction: transaction})
	}
}

// consuming subscribes so that messages of batches are acknowledged one by one.
func (s *scene) consuming(topic string, kind pulsar.SubscriptionType) pulsar.Consumer {
	return s.consumer(pulsar.ConsumerOptions{Topic: topic, Type: kind, EnableBatchIndexAcknowledgment: true})
}

var transactions = []check{
	{"a_commit_shows_everything_at_once", func(s *scene) {
		first, second := s.topic("first"), s.topic("second")
		consumers := []pulsar.Consumer{s.consuming(first, pulsar.Exclusive), s.consuming(second, pulsar.Shared)}
		transaction := s.begin()
		sendIn(transaction, s.producer(pulsar.ProducerOptions{Topic: first, DisableBatching: true}), "a", "b")
		sendIn(transaction, s.producer(pulsar.ProducerOptions{Topic: second}), "a", "b")
		for _, consumer := range consumers {
			receivesNothing(consumer)
		}
		commit(transaction)
		expect(transaction.GetState() == pulsar.TxnCommitted, "state %v", transaction.GetState())
		for _, consumer := range consumers {
			receivesTexts(consumer, "a", "b")
		}
	}},
	{"an_abort_shows_nothing", func(s *scene) {
		topic := s.topic("aborted")
		consumer := s.consuming(topic, pulsar.Exclusive)
		transaction := s.begin()
		sendIn(transaction, s.producer(pulsar.ProducerOptions{Topic: topic}), "hidden")
		// Not the same producer: the client goes on to name the transaction in batches after one of a transaction.
		sendText(s.producer(pulsar.ProducerOptions{Topic: topic}), "shown")
		receivesNothing(consumer)
		abort(transaction)
		receivesTexts(consumer, "shown")
	}},
	{"acknowledgements_count_when_the_transaction_commits", func(s *scene) {
		topic := s.topic("acked")
		sendNumbers(s.producer(pulsar.ProducerOptions{Topic: topic}), 3)
		consumer := s.consuming(topic, pulsar.Shared)
		got := receivesTexts(consumer, "0", "1", "2")
		kept, given := s.begin(), s.begin()
		succeeds(consumer.AckWithTxn(got[0], kept))
		succeeds(consumer.AckWithTxn(got[1], given))
		commit(kept)
		abort(given)
		again := receive(consumer)
		expect(string(again.Payload()) == "1", "received %q again", again.Payload())
		expect(again.RedeliveryCount() == 1, "delivery %d", again.RedeliveryCount())
		succeeds(consumer.Ack(got[2]))
		consumer.Close()
		receivesTexts(s.consuming(topic, pulsar.Shared), "1")
	}},
	{"messages_of_a_batch_are_acknowledged_one_by_one", func(s *scene) {
		topic := s.topic("batch")
		sendTogether(s.producer(pulsar.ProducerOptions{Topic: topic, BatchingMaxPublishDelay: time.Second}), texts(0, 3))
		consumer := s.consuming(topic, pulsar.Shared)
		got := receivesTexts(consumer, "0", "1", "2")
		transaction := s.begin()
		succeeds(consumer.AckWithTxn(got[1], transaction))
		commit(transaction)
		consumer.Close()
		receivesTexts(s.consuming(topic, pulsar.Shared), "0", "2")
	}},
	{"a_message_belongs_to_one_transaction", func(s *scene) {
		topic := s.topic("conflict")
		sendText(s.producer(pulsar.ProducerOptions{Topic: topic}), "m")
		consumer := s.consuming(topic, pulsar.Shared)
		got := receive(consumer)
		first, second := s.begin(), s.begin()
		succeeds(consumer.AckWithTxn(got, first))
		refused(consumer.AckWithTxn(got, second), "TransactionConflict", "in pending ack status")
		commit(first)
	}},
	{"a_transaction_moves_messages_exactly_once", func(s *scene) {
		from, to := s.topic("from"), s.topic("to")
		sendNumbers(s.producer(pulsar.ProducerOptions{Topic: from}), 20)
		consumer := s.consuming(from, pulsar.Shared)
		producer := s.producer(pulsar.ProducerOptions{Topic: to})
		for moved, tries := 0, 0; moved < 20; tries++ {
			message := receive(consumer)
			transaction := s.begin()
			sendIn(transaction, producer, string(message.Payload()))
			succeeds(consumer.AckWithTxn(message, transaction))
			if tries%3 == 1 {
				abort(transaction)
				continue
			}
			commit(transaction)
			moved++
		}
		arrived := map[string]bool{}
		for _, message := range receiveAll(s.consuming(to, pulsar.Exclusive), 20) {
			arrived[string(message.Payload())] = true
		}
		expect(len(arrived) == 20, "%d different messages arrived", len(arrived))
		receivesNothing(consumer)
	}},
	{"a_transaction_that_is_over_is_aborted", func(s *scene) {
		topic := s.topic("late")
		producer := s.producer(pulsar.ProducerOptions{Topic: topic})
		transaction := must(s.client.NewTransaction(300 * time.Millisecond))
		ctx, cancel := soon()
		defer cancel()
		// The time may be over already, so this may fail.
		_, _ = producer.Send(ctx, &pulsar.ProducerMessage{Payload: []byte("late"), Transaction: transaction})
		sendText(s.producer(pulsar.ProducerOptions{Topic: topic}), "shown")
		receivesTexts(s.consuming(topic, pulsar.Exclusive), "shown")
		expect(transaction.Commit(ctx) != nil, "committed after its time")
	}},
}
