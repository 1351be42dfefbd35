package main

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/apache/pulsar-client-go/pulsar/crypto"
)

// keyPair writes a pair of keys into files.
func keyPair(folder, name string) *crypto.FileKeyReader {
	key := must(rsa.GenerateKey(rand.Reader, 2048))
	write := func(name, kind string, bytes []byte) string {
		at := filepath.Join(folder, name)
		succeeds(os.WriteFile(at, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes}), 0o600))
		return at
	}
	public := write(name+".public", "PUBLIC KEY", must(x509.MarshalPKIXPublicKey(&key.PublicKey)))
	private := write(name+".private", "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key))
	return crypto.NewFileKeyReader(public, private)
}

func encrypted(s *scene) {
	folder := must(os.MkdirTemp("", "keys"))
	defer os.RemoveAll(folder)
	right, wrong := keyPair(folder, "right"), keyPair(folder, "wrong")
	topic := s.topic("encrypted")
	consumer := func(name string, keys *crypto.FileKeyReader, action int) pulsar.Consumer {
		return s.consumer(pulsar.ConsumerOptions{Topic: topic, SubscriptionName: name, Decryption: &pulsar.MessageDecryptionInfo{
			KeyReader: keys, ConsumerCryptoFailureAction: action,
		}})
	}
	for _, single := range []bool{true, false} {
		producer := s.producer(pulsar.ProducerOptions{
			Topic: topic, DisableBatching: single, CompressionType: pulsar.ZSTD,
			Encryption: &pulsar.ProducerEncryptionInfo{KeyReader: right, Keys: []string{"key"}},
		})
		sendTogether(producer, texts(0, 5))
		producer.Close()
	}
	twice := append(numbers(0, 5), numbers(0, 5)...)
	receivesTexts(consumer("right", right, crypto.ConsumerCryptoFailureActionFail), twice...)
	receivesNothing(consumer("wrong", wrong, crypto.ConsumerCryptoFailureActionFail))
	receivesNothing(consumer("discarding", wrong, crypto.ConsumerCryptoFailureActionDiscard))
	as := receive(consumer("as it is", wrong, crypto.ConsumerCryptoFailureActionConsume))
	context := as.GetEncryptionContext()
	expect(context != nil && context.CompressionType == pulsar.ZSTD, "no context of what is encrypted")
	expect(string(as.Payload()) != "0", "decrypted without the key")
	plain := s.consumer(pulsar.ConsumerOptions{Topic: topic, SubscriptionName: "plain"})
	receivesNothing(plain)
	s.refusesPlain()
}

// refusesPlain makes a namespace that requires encryption, in which plain producers are refused.
func (s *scene) refusesPlain() {
	namespace := "public/secret-" + s.run
	s.asks("PUT", "namespaces/"+namespace, "")
	s.asks("POST", "namespaces/"+namespace+"/encryptionRequired", "true")
	_, err := s.client.CreateProducer(pulsar.ProducerOptions{Topic: namespace + "/plain"})
	refused(err, "MetadataError")
}
