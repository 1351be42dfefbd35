package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
)

const (
	takeover = 2 * time.Minute
	moveEnds = 5 * time.Minute
)

// move takes a message from one topic and sends it to another in a transaction. It prints the transaction's id, waits for
// a line, takes and sends, prints `held`, and waits for a line again before it commits, since servers are killed
// meanwhile. In the end it prints `moved=ok`, or what is wrong.
func move(broker, from, to string) {
	made := options(broker)
	made.EnableTransaction = true
	made.OperationTimeout = takeover
	s := &scene{client: must(pulsar.NewClient(made)), broker: broker}
	lines := bufio.NewScanner(os.Stdin)
	fmt.Printf("moved=%s\n", runUntil(moveEnds, func(s *scene) {
		transaction := must(s.client.NewTransaction(moveEnds))
		id := transaction.GetTxnID()
		fmt.Printf("(%d,%d)\n", id.MostSigBits, id.LeastSigBits)
		lines.Scan()
		consumer := s.consuming(from, pulsar.Shared)
		taken := receive(consumer)
		sendIn(transaction, s.producer(pulsar.ProducerOptions{Topic: to}), string(taken.Payload()))
		succeeds(consumer.AckWithTxn(taken, transaction))
		fmt.Println("held")
		lines.Scan()
		ctx, cancel := context.WithTimeout(context.Background(), takeover)
		defer cancel()
		succeeds(transaction.Commit(ctx))
	}, func() *scene { return s }))
}
