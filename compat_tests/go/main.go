// Apache's Go client against a server: one line `name=ok` or `name=what went wrong` for each check.
//
//	program checks BROKER_URL WEB_URL [NAME...]        the checks that need nothing but a server
//	program transactions BROKER_URL                     those of transactions, which the server must have switched on
//	program secure BROKER_URL BROKER_URL_TLS WEB_URL_TLS FOLDER
//	program follow BROKER_URL                answers lines of stdin, for a server that is killed meanwhile
//	program move BROKER_URL FROM TO          moves a message in a transaction, step by step with lines of stdin
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/apache/pulsar-client-go/pulsar/log"
)

const (
	patience  = 15 * time.Second
	silence   = 700 * time.Millisecond
	atOnce    = 6
	checkEnds = 90 * time.Second
)

// A check panics with what went wrong.
type check struct {
	name string
	run  func(*scene)
}

// scene holds what one check uses alone: its client and its topics' names.
type scene struct {
	client pulsar.Client
	broker string
	web    string
	run    string
}

func (s *scene) topic(name string) string {
	return "persistent://public/default/" + name + "-" + s.run
}

func expect(right bool, format string, args ...any) {
	if !right {
		panic(fmt.Sprintf(format, args...))
	}
}

func must[T any](value T, err error) T {
	expect(err == nil, "%v", err)
	return value
}

func succeeds(err error) {
	expect(err == nil, "%v", err)
}

// refused expects an error with one of the words in its text.
func refused(err error, words ...string) {
	expect(err != nil, "no error where one of %v was due", words)
	for _, word := range words {
		if strings.Contains(err.Error(), word) {
			return
		}
	}
	panic(fmt.Sprintf("%q instead of one of %v", err, words))
}

func soon() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), patience)
}

func eventually(what string, holds func() bool) {
	for end := time.Now().Add(patience); !holds(); time.Sleep(50 * time.Millisecond) {
		expect(time.Now().Before(end), "never: %s", what)
	}
}

func (s *scene) producer(options pulsar.ProducerOptions) pulsar.Producer {
	return must(s.client.CreateProducer(options))
}

// consumer subscribes at the earliest message unless the options say otherwise.
func (s *scene) consumer(options pulsar.ConsumerOptions) pulsar.Consumer {
	if options.SubscriptionName == "" {
		options.SubscriptionName = "s"
	}
	options.SubscriptionInitialPosition = pulsar.SubscriptionPositionEarliest
	return must(s.client.Subscribe(options))
}

func send(producer pulsar.Producer, message *pulsar.ProducerMessage) pulsar.MessageID {
	ctx, cancel := soon()
	defer cancel()
	return must(producer.Send(ctx, message))
}

func sendText(producer pulsar.Producer, texts ...string) []pulsar.MessageID {
	ids := []pulsar.MessageID{}
	for _, text := range texts {
		ids = append(ids, send(producer, &pulsar.ProducerMessage{Payload: []byte(text)}))
	}
	return ids
}

func sendNumbers(producer pulsar.Producer, count int) []pulsar.MessageID {
	return sendText(producer, numbers(0, count)...)
}

// sendTogether sends without waiting for each message, so that the client makes batches.
func sendTogether(producer pulsar.Producer, messages []*pulsar.ProducerMessage) {
	errs := make(chan error, len(messages))
	for _, message := range messages {
		producer.SendAsync(context.Background(), message, func(_ pulsar.MessageID, _ *pulsar.ProducerMessage, err error) {
			errs <- err
		})
	}
	succeeds(producer.Flush())
	for range messages {
		succeeds(<-errs)
	}
}

func numbers(from, to int) []string {
	all := []string{}
	for at := from; at < to; at++ {
		all = append(all, fmt.Sprint(at))
	}
	return all
}

func texts(from, to int) []*pulsar.ProducerMessage {
	all := []*pulsar.ProducerMessage{}
	for _, number := range numbers(from, to) {
		all = append(all, &pulsar.ProducerMessage{Payload: []byte(number)})
	}
	return all
}

func receive(consumer pulsar.Consumer) pulsar.Message {
	ctx, cancel := soon()
	defer cancel()
	return must(consumer.Receive(ctx))
}

func receiveAll(consumer pulsar.Consumer, count int) []pulsar.Message {
	got := []pulsar.Message{}
	for len(got) < count {
		got = append(got, receive(consumer))
	}
	return got
}

func receivesTexts(consumer pulsar.Consumer, wanted ...string) []pulsar.Message {
	got := []pulsar.Message{}
	for _, text := range wanted {
		message := receive(consumer)
		expect(string(message.Payload()) == text, "received %q instead of %q", message.Payload(), text)
		got = append(got, message)
	}
	return got
}

func receivesNothing(consumer pulsar.Consumer) {
	ctx, cancel := context.WithTimeout(context.Background(), silence)
	defer cancel()
	message, err := consumer.Receive(ctx)
	if err == nil {
		panic(fmt.Sprintf("received %q (%v, delivery %d) where nothing was due",
			message.Payload(), message.ID(), message.RedeliveryCount()))
	}
}

// call asks the server's REST interface; the path begins after /admin/v2/.
func (s *scene) call(method, path, body string) (int, string) {
	request := must(http.NewRequest(method, s.web+"/admin/v2/"+path, strings.NewReader(body)))
	request.Header.Set("Content-Type", "application/json")
	answer := must(http.DefaultClient.Do(request))
	defer answer.Body.Close()
	return answer.StatusCode, string(must(io.ReadAll(answer.Body)))
}

func (s *scene) asks(method, path, body string) string {
	status, text := s.call(method, path, body)
	expect(status < 300, "%s %s: %d %s", method, path, status, text)
	return text
}

// path returns a topic's path in the REST interface.
func path(topic string) string {
	return strings.Replace(topic, "://", "/", 1)
}

func options(url string) pulsar.ClientOptions {
	return pulsar.ClientOptions{
		URL:              url,
		OperationTimeout: patience,
		Logger:           log.NewLoggerWithSlog(slog.New(slog.NewTextHandler(os.Stderr, nil))),
	}
}

// runOne runs a check and ends after a while, even when the client never answers.
func runOne(run func(*scene), makeScene func() *scene) string {
	return runUntil(checkEnds, run, makeScene)
}

func runUntil(end time.Duration, run func(*scene), makeScene func() *scene) string {
	said := make(chan string, 2)
	go func() {
		defer func() {
			if problem := recover(); problem != nil {
				said <- strings.ReplaceAll(fmt.Sprint(problem), "\n", " ")
			}
		}()
		made := makeScene()
		if made.client != nil {
			defer made.client.Close()
		}
		run(made)
		said <- "ok"
	}()
	select {
	case text := <-said:
		return text
	case <-time.After(end):
		return "did not end"
	}
}

// runAll runs some checks at once, each with a client of its own.
func runAll(checks []check, makeScene func() *scene) {
	var group sync.WaitGroup
	places := make(chan struct{}, atOnce)
	for _, one := range checks {
		places <- struct{}{}
		group.Add(1)
		go func() {
			defer func() { <-places; group.Done() }()
			fmt.Printf("%s=%s\n", one.name, runOne(one.run, makeScene))
		}()
	}
	group.Wait()
}

func main() {
	run := fmt.Sprint(time.Now().UnixNano())
	switch os.Args[1] {
	case "checks":
		broker, web := os.Args[2], os.Args[3]
		checks := slices.Concat(producing, consuming, subscriptions, reading, topics, schemas)
		if only := os.Args[4:]; len(only) > 0 {
			checks = slices.DeleteFunc(checks, func(one check) bool { return !slices.Contains(only, one.name) })
		}
		runAll(checks, func() *scene {
			return &scene{must(pulsar.NewClient(options(broker))), broker, web, run}
		})
	case "transactions":
		broker := os.Args[2]
		runAll(transactions, func() *scene { return &scene{transactional(broker), broker, "", run} })
	case "secure":
		checkSecurity(os.Args[2], os.Args[3], os.Args[4], os.Args[5])
	case "follow":
		follow(os.Args[2], run)
	case "move":
		move(os.Args[2], os.Args[3], os.Args[4])
	}
}
