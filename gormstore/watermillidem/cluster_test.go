package watermillidem_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/gormstore/watermillidem"
)

// events publishes so many events, each in a transaction of its own.
func (b *bench) events(n int) {
	b.Helper()
	for range n {
		require.NoError(b, b.db.Transaction(func(tx *gorm.DB) error {
			return b.publish(gormstore.WithTx(b.Context(), tx), delivery(b))
		}))
	}
}

// move makes the outbox one that was dumped in a cluster that has counted further.
func (b *bench) move() {
	b.Helper()
	const further = "(%[1]s::text::bigint + 1000000)::text::xid8"
	for table, column := range map[string]string{
		"watermill_" + topic:         "transaction_id",
		"watermill_offsets_" + topic: "last_processed_transaction_id",
	} {
		require.NoError(b, b.db.Exec(fmt.Sprintf("UPDATE %s SET %s = %s", table, column, fmt.Sprintf(further, column))).Error)
	}
}

// read runs a subscriber of the group until it has read the last of the events that are there, and returns which.
func (b *bench) read(group string) (ids []string) {
	b.Helper()
	var seen letters
	router := b.route(func(r *message.Router) {
		r.AddConsumerHandler(group, topic, b.subscriber(group), seen.handle)
	})
	last := b.published()[len(b.published())-1]
	b.eventually("the last event is read", func() bool { return slices.Contains(seen.all(), last) })
	b.eventually("it is acknowledged", func() bool {
		var behind int64
		require.NoError(b, b.db.Raw(`SELECT count(*) FROM watermill_`+topic+` e, watermill_offsets_`+topic+` o
			WHERE consumer_group = ? AND (transaction_id, "offset") > (last_processed_transaction_id, offset_acked)`, group).
			Scan(&behind).Error)
		return behind == 0
	})
	require.NoError(b, router.Close())
	return seen.all()
}

// An outbox that was dumped and restored, or replicated, holds the ids of transactions of another cluster: new events look
// as if they had been read long ago. A subscriber is refused, and after the repair every event that was not read is.
//
// CONTRACT Q-5
func TestOutboxThatWasMoved(t *testing.T) {
	t.Parallel()
	b := onPostgres(t)
	b.events(3)
	require.Equal(t, b.published(), b.read("stock"))
	b.events(7)
	b.move()
	var moved time.Time
	require.NoError(t, b.db.Raw("SELECT clock_timestamp()").Scan(&moved).Error)
	b.events(2) // a publisher did not wait

	_, err := b.subscriber("stock").Subscribe(t.Context(), topic)
	require.ErrorContains(t, err, "the outbox payments was moved here from another cluster")
	require.ErrorContains(t, err, "watermillidem.RepairOutbox")
	all := b.published()
	require.NoError(t, watermillidem.RepairOutbox(t.Context(), b.db, watermillidem.PostgreSQLOffsets{}, topic, moved))
	require.Equal(t, all[3:], b.read("stock"), "no event is skipped, none that was read comes again")
	require.Equal(t, all, b.read("mail"), "a group that is new gets all of them, in their order")
	b.events(1)
	require.Len(t, b.read("stock"), 1)
}

// A cluster that has counted further by the time somebody looks is known by its identifier.
//
// CONTRACT Q-5
func TestOutboxOfAnotherCluster(t *testing.T) {
	t.Parallel()
	b := onPostgres(t)
	b.events(2)
	require.Len(t, b.read("stock"), 2)
	require.NoError(t, b.db.Exec("UPDATE watermill_offsets_"+topic+" SET last_processed_transaction_id = '1' "+
		"WHERE consumer_group = 'idem: cluster'").Error)
	b.events(1)
	_, err := b.subscriber("stock").Subscribe(t.Context(), topic)
	require.ErrorContains(t, err, "watermillidem.RepairOutbox")
	require.NoError(t, watermillidem.RepairOutbox(t.Context(), b.db, watermillidem.PostgreSQLOffsets{}, topic, time.Now()))
	require.Len(t, b.read("stock"), 1)
}

// A subscriber that says nothing more, because its process is paused, does not keep the group's place for ever.
//
// CONTRACT Q-5
func TestSubscriberThatIsPaused(t *testing.T) {
	t.Parallel()
	b := onPostgres(t)
	b.offsets = watermillidem.PostgreSQLOffsets{Silence: time.Second}
	b.events(1)
	held, goOn := make(chan struct{}), make(chan struct{})
	b.route(func(r *message.Router) {
		once := sync.OnceFunc(func() { close(held) })
		r.AddConsumerHandler("stock", topic, b.subscriber("stock"), func(*message.Message) error {
			once()
			<-goOn
			return nil
		})
	})
	defer close(goOn)
	<-held
	require.Equal(t, b.published(), b.read("stock"))
}
