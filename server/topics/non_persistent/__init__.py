"""Topics whose messages are never stored: a message goes to the consumers that can take it at once, or is dropped. This
package uses the code that persistent and non-persistent topics share (`topics`, `publishing`, `subscriptions`).
`BrokerService` creates the topics by way of `NonPersistentTopics`."""
