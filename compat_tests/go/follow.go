package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
)

// follow prints "ready" and sends until it reads the line "stop", whatever happens to the server meanwhile. Then it
// reads everything back and prints `kept=ok`, or what is wrong.
func follow(broker, run string) {
	client := must(pulsar.NewClient(options(broker)))
	s := &scene{client: client, broker: broker, run: run}
	topic := s.topic("follow")
	with := pulsar.ProducerOptions{Topic: topic, SendTimeout: -1, MaxPendingMessages: 100}
	producer := s.producer(with)
	consumer := s.consumer(pulsar.ConsumerOptions{Topic: topic, Type: pulsar.Failover})
	receipts := make(chan int, 1<<20)
	var stopping atomic.Bool
	sent := make(chan int)
	go func() {
		at := 0
		for ; !stopping.Load(); at++ {
			message := &pulsar.ProducerMessage{Payload: []byte(fmt.Sprint(at))}
			producer.SendAsync(context.Background(), message, func(_ pulsar.MessageID, _ *pulsar.ProducerMessage, err error) {
				if err == nil {
					receipts <- at
				}
			})
			time.Sleep(2 * time.Millisecond)
		}
		sent <- at
	}()
	fmt.Println("ready")
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() && strings.TrimSpace(lines.Text()) != "stop" {
		fmt.Println(len(receipts))
	}
	fmt.Printf("kept=%s\n", runOne(func(*scene) {
		stopping.Store(true)
		count := <-sent
		succeeds(producer.Flush())
		expect(len(receipts) == count, "%d receipts for %d messages", len(receipts), count)
		// A message that was stored but not yet answered may be there twice and so come again. The first appearances
		// are in order, and none is missing.
		for next := 0; next < count; {
			number := 0
			message := receive(consumer)
			fmt.Sscan(string(message.Payload()), &number)
			expect(number <= next, "%d came instead of %d", number, next)
			if number == next {
				next++
			}
			succeeds(consumer.Ack(message))
		}
		expect(count > 100, "only %d messages", count)
	}, func() *scene { return s }))
}
