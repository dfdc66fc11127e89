package watermillidem_test

import (
	"testing"

	wsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/gormstore/watermillidem"
)

// A subscriber that acknowledges late does not take its group back.
func TestSQLiteOffsetsOnlyRise(t *testing.T) {
	t.Parallel()
	b := onSQLite(t)
	for _, offset := range []int64{1, 7, 3} {
		q, err := watermillidem.SQLiteOffsets{}.AckMessageQuery(wsql.AckMessageQueryParams{
			Topic: topic, LastRow: wsql.Row{Offset: offset}, ConsumerGroup: "stock",
		})
		require.NoError(t, err)
		require.NoError(t, b.db.Exec(q.Query, q.Args...).Error)
	}
	require.Equal(t, 7, b.acked("stock"))
	require.Zero(t, b.acked("mail"))
}
