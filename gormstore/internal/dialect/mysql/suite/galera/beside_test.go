package galera

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/gormstore/inbox"
)

// An attempt on another node is not seen before its first commit: a question says so, and a repeat runs beside it. One of them
// commits. The other is undone, and told what a repeat is told.
//
// CONTRACT M-6, M-8
func TestAnAttemptOnAnotherNode(t *testing.T) {
	w := newWorld(t, settings)
	const command = "rollback/00000001"
	inside, goOn := make(chan struct{}), make(chan struct{})
	w.pause = func(node int) {
		if node == 0 {
			inside <- struct{}{}
			<-goOn
		}
	}
	told := make(chan *httptest.ResponseRecorder)
	go func() { told <- w.send(0, command) }()
	<-inside
	status, detail := w.ask(t, 0, command)
	require.Equal(t, http.StatusOK, status, detail)
	status, detail = w.ask(t, 1, command)
	require.Equal(t, http.StatusNotFound, status)
	require.Contains(t, detail, "another node")

	first := w.send(1, command)
	require.Equal(t, http.StatusCreated, first.Code, first.Body)
	close(goOn)
	other := <-told
	require.Equal(t, first.Body.String(), other.Body.String(), other.Code)
	require.Equal(t, "reused", other.Header().Get("Idempotency-Result"))
	again := w.send(0, command)
	require.Equal(t, first.Body.String(), again.Body.String())
	require.Equal(t, "reused", again.Header().Get("Idempotency-Result"))
	require.Equal(t, 2, w.runs.get(command))
	var rows int64
	require.NoError(t, w.dbs[2].Table("entry").Count(&rows).Error)
	require.EqualValues(t, 1, rows)
}

// So it is with a message: its handler may run on two nodes at once, one of which commits.
//
// CONTRACT Q-1, M-6
func TestAMessageOnTwoNodes(t *testing.T) {
	w := newWorld(t, settings)
	var boxes [2]*inbox.Inbox
	for n := range boxes {
		var err error
		boxes[n], err = inbox.New(w.dbs[n], inbox.Config{Group: "g", BrokerRetention: 7 * 24 * time.Hour, Keep: 30 * 24 * time.Hour})
		require.NoError(t, err)
	}
	message := inbox.Message{Source: "payments", ID: "m", Payload: []byte(`{"amount":"10.00"}`)}
	booked := func(run string) func(*gorm.DB) error {
		return func(tx *gorm.DB) error { return book(tx, "m", "whole", run) }
	}
	require.Error(t, boxes[0].Process(t.Context(), message, func(tx *gorm.DB) error {
		require.NoError(t, boxes[1].Process(t.Context(), message, booked("on the other")))
		return booked("beside it")(tx)
	}))
	require.NoError(t, boxes[0].Process(t.Context(), message, func(*gorm.DB) error {
		t.Error("the handler runs")
		return nil
	}))
	var runs []string
	require.NoError(t, w.dbs[2].Table("entry").Pluck("run", &runs).Error)
	require.Equal(t, []string{"on the other"}, runs)
}

// ask asks the instance of a node for the operation of a command's key.
func (w *world) ask(t *testing.T, node int, command string) (status int, detail string) {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/operation", nil)
	r.Header.Set("Idempotency-Key", command)
	answer := httptest.NewRecorder()
	w.apps[node].ServeHTTP(answer, r)
	var problem struct{ Detail string }
	require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &problem))
	return answer.Code, problem.Detail
}
