package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/ThreeDotsLabs/watermill"
	wmnats "github.com/ThreeDotsLabs/watermill-nats/v2/pkg/nats"
	"github.com/nats-io/nats.go"
)

// jetStream is NATS JetStream: a stream for each topic, and a durable consumer for the group.
type jetStream struct {
	publisher  publishing
	subscriber subscribing
}

// publishing and subscribing are the two directions, with a connection for each.
type (
	publishing struct {
		*wmnats.Publisher
		conn *nats.Conn
	}
	subscribing struct {
		*wmnats.Subscriber
		conn *nats.Conn
	}
)

// Close implements [message.Publisher].
func (p publishing) Close() error { return hangUp(p.conn, p.Publisher.Close()) }

// Close implements [message.Subscriber].
func (s subscribing) Close() error { return hangUp(s.conn, s.Subscriber.Close()) }

// hangUp closes a connection that could not be drained because the broker is unreachable: messages without an
// acknowledgement come again.
func hangUp(conn *nats.Conn, err error) error {
	if !errors.Is(err, nats.ErrConnectionReconnecting) {
		return err
	}
	conn.Close()
	return nil
}

// alive reports whether the broker stores messages at all.
func (js jetStream) alive(ctx context.Context) error {
	stream, err := js.publisher.conn.JetStream()
	if err == nil {
		_, err = stream.StreamInfo(captured, nats.Context(ctx))
	}
	return err
}

// connectJetStream connects to a server, with a connection for each direction, and creates streams and consumer.
func connectJetStream(s settings, log watermill.LoggerAdapter) (_ jetStream, err error) {
	options := []nats.Option{nats.Name(group), nats.MaxReconnects(-1)}
	if err := provision(s, options); err != nil {
		return jetStream{}, fmt.Errorf("-nats: %w", err)
	}
	var js jetStream
	if js.publisher.conn, err = nats.Connect(s.natsURL, options...); err != nil {
		return jetStream{}, fmt.Errorf("-nats: %w", err)
	}
	js.publisher.Publisher, err = wmnats.NewPublisherWithNatsConn(js.publisher.conn, wmnats.PublisherPublishConfig{
		Marshaler: &wmnats.NATSMarshaler{}, SubjectCalculator: wmnats.DefaultSubjectCalculator,
	}, log)
	if err != nil {
		return jetStream{}, fmt.Errorf("-nats: %w", err)
	}
	if js.subscriber.conn, err = nats.Connect(s.natsURL, options...); err != nil {
		return jetStream{}, fmt.Errorf("-nats: %w", err)
	}
	incoming := wmnats.SubscriberConfig{
		QueueGroupPrefix: group, AckWaitTimeout: s.redeliver, NakDelay: wmnats.NewStaticDelay(handBackFor),
		Unmarshaler: &wmnats.NATSMarshaler{}, SubjectCalculator: wmnats.DefaultSubjectCalculator,
		JetStream: wmnats.JetStreamConfig{
			DurablePrefix: group,
			SubscribeOptions: []nats.SubOpt{
				nats.Bind(captured, group),
				nats.ManualAck(), // else the client acknowledges by itself what a stopped worker has not handled
			},
		},
	}
	js.subscriber.Subscriber, err = wmnats.NewSubscriberWithNatsConn(js.subscriber.conn,
		incoming.GetSubscriberSubscriptionConfig(), log)
	return js, err
}

// provision creates missing streams, and creates or changes the consumer. The subscriber only binds to this consumer. If the
// subscriber created it, closing would delete it, and with it the position in the stream.
func provision(s settings, options []nats.Option) error {
	conn, err := nats.Connect(s.natsURL, options...)
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := conn.JetStream()
	if err != nil {
		return err
	}
	for _, topic := range []string{captured, deadLetters} {
		_, err := js.AddStream(&nats.StreamConfig{Name: topic, Subjects: []string{topic}, MaxAge: brokerRetention})
		if err != nil && !errors.Is(err, nats.ErrStreamNameAlreadyInUse) {
			return fmt.Errorf("stream %s: %w", topic, err)
		}
	}
	_, err = js.UpdateConsumer(captured, &nats.ConsumerConfig{
		Durable: group, DeliverGroup: group, DeliverSubject: "deliver." + group, FilterSubject: captured,
		AckPolicy: nats.AckExplicitPolicy, AckWait: s.redeliver,
		MaxAckPending: 64, // few: the last of those under way waits for all others, and for no longer than AckWait
	})
	if err != nil {
		return fmt.Errorf("consumer %s: %w", group, err)
	}
	return nil
}
