package main

import (
	"time"

	"github.com/ThreeDotsLabs/watermill"
	wmsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"gorm.io/gorm"

	"github.com/auth19/idem/gormstore/watermillidem"
)

// tables stores Watermill's topics as tables of the app's database.
type tables struct {
	app     *gorm.DB
	db      wmsql.Beginner
	schema  wmsql.SchemaAdapter
	offsets wmsql.OffsetsAdapter
	// redeliver is how long a message may take before it is delivered again.
	redeliver time.Duration
	log       watermill.LoggerAdapter
}

// batch is how many messages a worker on PostgreSQL takes at a time. They are acknowledged together, in a transaction that
// is open until the last one is handled. After a kill all of them come again.
const batch = 20

func tablesOf(db *gorm.DB, redeliver time.Duration, log watermill.LoggerAdapter) (*tables, error) {
	pool, err := db.DB()
	if err != nil {
		return nil, err
	}
	if db.Name() == "sqlite" {
		return &tables{
			db, watermillidem.SQLiteBeginner(pool), watermillidem.SQLiteSchema{}, watermillidem.SQLiteOffsets{}, redeliver, log,
		}, nil
	}
	return &tables{
		db, wmsql.BeginnerFromStdSQL(pool), wmsql.DefaultPostgreSQLSchema{SubscribeBatchSize: batch},
		watermillidem.PostgreSQLOffsets{Silence: batch * redeliver}, redeliver, log,
	}, nil
}

// subscriber returns a subscriber for the group, and creates the tables of the topics.
func (t *tables) subscriber(topics ...string) (*wmsql.Subscriber, error) {
	s, err := wmsql.NewSubscriber(t.db, wmsql.SubscriberConfig{
		ConsumerGroup: group, SchemaAdapter: t.schema, OffsetsAdapter: t.offsets,
		PollInterval: 100 * time.Millisecond, ResendInterval: handBackFor, AckDeadline: &t.redeliver,
	}, t.log)
	if err != nil {
		return nil, err
	}
	for _, topic := range topics {
		if err := s.SubscribeInitialize(topic); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// publisher returns a publisher outside of transactions, for dead letters.
func (t *tables) publisher() (*wmsql.Publisher, error) {
	return wmsql.NewPublisher(t.db, wmsql.PublisherConfig{SchemaAdapter: t.schema}, t.log)
}
