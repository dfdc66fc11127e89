// Package watermillidem joins gormstore with Watermill: handlers that process a message once (the inbox, Q-1), and
// events that are published from the transaction of the rows (the outbox, Q-2).
//
// Publishing, in a Rollback handler, a database step or an inbox handler:
//
//	publisher, err := watermillidem.Publisher(ctx, sql.DefaultPostgreSQLSchema{})
//	event, err := watermillidem.Event(ctx, "payment.captured", payload)
//	err = publisher.Publish("payments", event)
//
// Consuming:
//
//	router.AddConsumerHandler("stock", "payments", subscriber,
//		watermillidem.Inbox(inbox, "payments", func(tx *gorm.DB, msg *message.Message) error { ... }))
//
// Everything else is Watermill's own: the publisher and the subscriber of watermill-sql, the forwarder to another broker,
// the dead letters. For SQLite, which watermill-sql does not know, see [SQLiteSchema].
package watermillidem
