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
	conn       *nats.Conn // of the publisher
	publisher  *wmnats.Publisher
	subscriber *wmnats.Subscriber
}

// alive reports whether the broker stores messages at all.
func (js jetStream) alive(ctx context.Context) error {
	stream, err := js.conn.JetStream()
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
	if js.conn, err = nats.Connect(s.natsURL, options...); err != nil {
		return jetStream{}, fmt.Errorf("-nats: %w", err)
	}
	js.publisher, err = wmnats.NewPublisherWithNatsConn(js.conn, wmnats.PublisherPublishConfig{
		Marshaler: &wmnats.NATSMarshaler{}, SubjectCalculator: wmnats.DefaultSubjectCalculator,
	}, log)
	if err != nil {
		return jetStream{}, fmt.Errorf("-nats: %w", err)
	}
	js.subscriber, err = wmnats.NewSubscriber(wmnats.SubscriberConfig{
		URL: s.natsURL, NatsOptions: options, QueueGroupPrefix: group,
		AckWaitTimeout: s.redeliver, NakDelay: wmnats.NewStaticDelay(handBackFor),
		JetStream: wmnats.JetStreamConfig{
			DurablePrefix: group,
			SubscribeOptions: []nats.SubOpt{
				nats.Bind(captured, group),
				nats.ManualAck(), // else the client acknowledges by itself what a stopped worker has not handled
			},
		},
	}, log)
	return js, err
}

// provision creates the streams where they are not there yet, and creates or changes the consumer. The subscriber only
// binds to it: a consumer that it makes by itself is deleted when it is closed, and with it the place in the stream.
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
