// Package watermillidem joins gormstore with Watermill: handlers that process a message once (gormstore/inbox,
// Q-1), and events that are published from the transaction of the rows (the outbox, Q-2).
//
// Publishing, in a Rollback handler, a database step or an inbox handler:
//
//	publisher, err := watermillidem.Publisher(ctx, sql.DefaultPostgreSQLSchema{})
//	event, err := watermillidem.Event(ctx, "payment.captured", payload)
//	err = publisher.Publish("payments", event)
//
// Consuming:
//
//	box, err := inbox.New(db, inbox.Config{Group: "stock", BrokerRetention: 7 * 24 * time.Hour})
//	handle, err := watermillidem.Inbox(box, "payments", func(tx *gorm.DB, msg *message.Message) error { ... })
//	router.AddConsumerHandler("stock", "payments", subscriber, handle)
//
// To another broker: [NewForwarder]. On PostgreSQL a subscriber of the outbox has [PostgreSQLOffsets].
//
// Everything else is Watermill's own: the publisher and the subscriber of watermill-sql, the dead letters. For SQLite,
// which watermill-sql does not know, see [SQLiteSchema].
package watermillidem
