package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/apache/pulsar-client-go/pulsar"
)

// noConnection is the client's only error for refused credentials, which comes after it has tried for `patience`.
const noConnection = "connection error"

// checkSecurity runs against a server with authentication: alice may produce, bob consume, dave both, `admin` anything.
// FOLDER holds certificates with that of the authority, and a token for each role.
func checkSecurity(broker, brokerTLS, webTLS, folder string) {
	in := func(name string) string { return filepath.Join(folder, name) }
	token := func(role string) pulsar.Authentication {
		return pulsar.NewAuthenticationTokenFromFile(in(role + ".token"))
	}
	certificate := func(name string) pulsar.Authentication {
		return pulsar.NewAuthenticationTLS(in(name+".cert.pem"), in(name+".key.pem"))
	}
	client := func(url string, who pulsar.Authentication, validate bool) pulsar.Client {
		with := options(url)
		with.Authentication, with.TLSTrustCertsFilePath, with.TLSValidateHostname = who, in("authority.pem"), validate
		return must(pulsar.NewClient(with))
	}
	number := 0
	exchange := func(producing, consuming pulsar.Client) {
		number++
		topic := fmt.Sprint("persistent://secured/orders/go-", number)
		consumer := must(consuming.Subscribe(pulsar.ConsumerOptions{Topic: topic, SubscriptionName: "s"}))
		sendText(must(producing.CreateProducer(pulsar.ProducerOptions{Topic: topic})), "hello")
		receivesTexts(consumer, "hello")
	}
	produces := func(made pulsar.Client, words ...string) {
		_, err := made.CreateProducer(pulsar.ProducerOptions{Topic: "secured/orders/refused"})
		refused(err, words...)
	}
	basic := func(password string) pulsar.Authentication {
		return must(pulsar.NewAuthenticationBasic("dave", password))
	}
	literal := func(text string) pulsar.Authentication { return pulsar.NewAuthenticationToken(text) }
	for _, one := range []struct {
		name string
		run  func()
	}{
		{"token", func() { exchange(client(broker, token("alice"), false), client(broker, token("bob"), false)) }},
		{"token_of_a_supplier", func() {
			asked := 0
			with := client(broker, pulsar.NewAuthenticationTokenFromSupplier(func() (string, error) {
				asked++
				text, err := os.ReadFile(in("dave.token"))
				return strings.TrimSpace(string(text)), err
			}), false)
			exchange(with, with)
			expect(asked > 0, "nobody asked for the token")
		}},
		{"tls_and_token", func() {
			exchange(client(brokerTLS, token("alice"), true), client(brokerTLS, token("bob"), true))
		}},
		{"tls_certificate", func() {
			exchange(client(brokerTLS, certificate("admin"), true), client(brokerTLS, token("bob"), false))
		}},
		{"https_lookup", func() {
			// The clients come one after the other, because all of a process share the TLS settings of the latest one.
			admin := client(webTLS, certificate("admin"), true)
			exchange(admin, admin)
			dave := client(webTLS, token("dave"), true)
			exchange(dave, dave)
		}},
		{"password", func() {
			exchange(client(brokerTLS, basic("pass:word"), true), client(broker, basic("pass:word"), false))
		}},
		{"wrong_password", func() { produces(client(broker, basic("guess"), false), noConnection) }},
		{"wrong_token", func() { produces(client(broker, literal("x.y.z"), false), noConnection) }},
		{"over_token", func() { produces(client(broker, token("over"), false), noConnection) }},
		{"may_not_produce", func() { produces(client(broker, token("bob"), false), "AuthorizationError") }},
		{"may_not_consume", func() {
			_, err := client(broker, token("alice"), false).Subscribe(pulsar.ConsumerOptions{
				Topic: "secured/orders/refused", SubscriptionName: "s",
			})
			refused(err, "AuthorizationError")
		}},
		{"anonymous_may_nothing", func() { produces(client(broker, nil, false), "AuthorizationError") }},
		{"unknown_authority", func() {
			with := options(brokerTLS)
			with.Authentication = token("alice")
			produces(must(pulsar.NewClient(with)), noConnection)
		}},
	} {
		fmt.Printf("%s=%s\n", one.name, runOne(func(*scene) { one.run() }, func() *scene { return &scene{} }))
	}
}
