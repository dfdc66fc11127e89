package gormstore

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore/internal/txn"
)

// The table idempotency_setting has the settings by which timed keys are judged: floors in microseconds since 1970, under
// floor/<service> and floor/<service>/<METHOD route>, and the ages of routes under key_age/<service>/<METHOD route>. A
// service is 8 bytes in hex. The floor of a route judges UUIDv7 keys after the route has left TimedKey.
//
// A claim reads its floor in its own statement, whose snapshot shows either the record or the floor that a sweep has raised
// when it dropped the record (T-6).

const (
	floorPrefix = "floor/"
	agePrefix   = "key_age/"
	serviceLen  = 8 // how much of a realm stands for the service
)

// floor reads a floor; NULL is the zero time.
type floor struct{ time.Time }

// Scan implements [database/sql.Scanner].
func (f *floor) Scan(value any) error {
	var us sql.NullInt64
	if err := us.Scan(value); err != nil {
		return fmt.Errorf("idem: gormstore: the floor of timed keys: %w", err)
	}
	f.Time = time.Time{}
	if us.Valid {
		f.Time = time.UnixMicro(us.Int64)
	}
	return nil
}

// ScanText implements [pgtype.TextScanner].
func (f *floor) ScanText(v pgtype.Text) error {
	if !v.Valid {
		return f.Scan(nil)
	}
	return f.Scan(v.String)
}

// floorName is the name of the floor by which a claim's key is judged; "" if the key is not judged.
func floorName(c store.Claim) string {
	switch {
	case c.Key.Made.IsZero():
		return ""
	case c.Key.Timed:
		return floorPrefix + hex.EncodeToString(c.Realm[:serviceLen])
	}
	return floorPrefix + hex.EncodeToString(c.Realm[:serviceLen]) + "/" + c.Method + " " + c.Route
}

// latestOf is the last moment at which a key without a record may be claimed.
func latestOf(c store.Claim) int64 {
	last := txn.Latest(c.Key.Valid)
	if c.Key.Timed {
		last = min(last, txn.Latest(c.Window))
	}
	return last
}

// keyRefused is the outcome of a claim whose key is refused because of its time.
func keyRefused(now time.Time) store.Claimed {
	return store.Claimed{KeyRefused: true, Record: store.Record{Now: now}}
}

// refuses reports whether the time of the key forbids taking a record over. The statement that takes it over checks this
// again.
func refuses(rec store.Record, c store.Claim, floor floor) bool {
	return rec.State() == store.Free && (rec.Spent() || !c.Key.Allows(rec.Now, floor.Time))
}

// readFloor returns the clock and the floor of a claim's key, on SQLite.
func (s *Store) readFloor(ctx context.Context, q txn.Querier, c store.Claim) (now time.Time, floor floor, err error) {
	var us int64
	err = s.db.QueryRow(ctx, q, keyFloor, floorName(c)).Scan(&us, &floor)
	return time.UnixMicro(us), floor, err
}

// refused returns the reason why a claim has inserted nothing although there is no record: the clock, or the time
// of the key.
func (s *Store) refused(ctx context.Context, q txn.Querier, c store.Claim) (store.Claimed, error) {
	now, floor, err := s.readFloor(ctx, q, c)
	switch {
	case err != nil:
		return store.Claimed{}, err
	case c.Trusts(now) && !c.Key.Allows(now, floor.Time):
		return keyRefused(now), nil
	case c.Trusts(now): // the clock is right again, or who had the lock has gone
		return store.Claimed{}, txn.ErrRace
	}
	return store.Claimed{}, store.ErrClock
}

// floors are the floors that a sweep has to raise, in microseconds.
type floors map[string]int64

// add adds the floors of a dropped record of a timed key.
func (f *floors) add(id, realm []byte, route string) {
	rec := store.Record{Timed: true}
	copy(rec.ID[:], id)
	made := rec.KeyMade().UnixMicro()
	ofService := floorPrefix + hex.EncodeToString(realm[:min(serviceLen, len(realm))])
	if *f == nil {
		*f = floors{}
	}
	for _, name := range []string{ofService, ofService + "/" + route} {
		(*f)[name] = max((*f)[name], made)
	}
}

// raiseFloors raises the floors in a fixed order, so that two sweeps do not deadlock.
func (s *Store) raiseFloors(ctx context.Context, q txn.Querier, f floors) error {
	for _, name := range slices.Sorted(maps.Keys(f)) {
		if _, err := s.db.Exec(ctx, q, raiseKeyFloor, name, strconv.FormatInt(f[name], 10)); err != nil {
			return err
		}
	}
	return nil
}

// RefuseKeysBefore implements [store.Settings].
func (s *Store) RefuseKeysBefore(ctx context.Context, service []byte, r store.Refusal) error {
	name := floorPrefix + hex.EncodeToString(service)
	value := strconv.FormatInt(r.Before.Add(-time.Microsecond).UnixMicro(), 10) // a key that was made then is not before it
	return s.joined(ctx, func(q txn.Querier) error {
		if _, err := s.db.ClockWithin(ctx, q, r.Window); err != nil {
			return err
		}
		if id := store.RefusalsID(service); r.Who != "" {
			if _, err := s.db.Exec(ctx, q, appendSettlement, id[:], r.Who, r.Why, int64(0), int64(0), r.Before.UnixMicro(),
				int64(0), int64(0), ""); err != nil {
				return err
			}
		}
		if _, err := s.db.Exec(ctx, q, raiseKeyFloor, name, value); err != nil {
			return err
		}
		if _, err := s.db.Exec(ctx, q, raiseKeyFloors, name+"/%", value); err != nil {
			return err
		}
		// A route that has not dropped a record yet has no floor of its own. It needs one when it leaves TimedKey.
		_, err := s.db.Exec(ctx, q, raiseAgedFloors,
			agePrefix+hex.EncodeToString(service)+"/%", floorPrefix, value, len(agePrefix))
		return err
	})
}

// KeepAge implements [store.Settings]. It writes only if the age has changed.
func (s *Store) KeepAge(
	ctx context.Context, service []byte, route string, age time.Duration, w store.Window,
) (kept store.AgeLimit, err error) {
	ofRoute := hex.EncodeToString(service) + "/" + route
	age = age.Truncate(time.Microsecond) // as it is kept
	err = s.db.OnPool(ctx, func(q txn.Querier) (err error) {
		kept, err = s.readAge(ctx, q, setting, agePrefix+ofRoute)
		return err
	})
	if err != nil || kept == kept.Next(age, kept.Since) {
		return kept, err
	}
	err = s.db.InTx(ctx, func(q txn.Querier) (err error) {
		kept, err = s.keepAge(ctx, q, ofRoute, age, w)
		return err
	})
	return kept, err
}

// keepAge changes the kept age of a route in a transaction.
func (s *Store) keepAge(
	ctx context.Context, q txn.Querier, ofRoute string, age time.Duration, w store.Window,
) (store.AgeLimit, error) {
	now, err := s.db.ClockWithin(ctx, q, w)
	if err != nil {
		return store.AgeLimit{}, err
	}
	now = time.UnixMicro(w.Later(now).UnixMicro()) // as it is kept
	if age > 0 {
		first := store.AgeLimit{}.Next(age, now)
		if _, err := s.db.Exec(ctx, q, keepFirst, agePrefix+ofRoute, encodeAge(first)); err != nil {
			return store.AgeLimit{}, err
		}
	}
	kept, err := s.readAge(ctx, q, lockSetting, agePrefix+ofRoute)
	next := kept.Next(age, now)
	if err != nil || next == kept {
		return kept, err
	}
	if _, err = s.db.Exec(ctx, q, keepSetting, agePrefix+ofRoute, encodeAge(next)); err == nil && !next.Left.IsZero() {
		err = s.raiseOnLeaving(ctx, q, ofRoute, next)
	}
	return next, err
}

// raiseOnLeaving raises the floor of a route that leaves TimedKey. So the keys that were refused on the route until now
// stay refused: those that were too old, and those below the floor of the service.
func (s *Store) raiseOnLeaving(ctx context.Context, q txn.Querier, ofRoute string, left store.AgeLimit) error {
	service, _, _ := strings.Cut(ofRoute, "/")
	var ofService int64
	err := s.db.QueryRow(ctx, q, setting, floorPrefix+service).Scan(&ofService)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	return s.raiseFloors(ctx, q, floors{floorPrefix + ofRoute: max(ofService, left.Floor().UnixMicro())})
}

// readAge reads a kept age; the zero value if there is none.
func (s *Store) readAge(
	ctx context.Context, q txn.Querier, statement txn.Statement, name string,
) (kept store.AgeLimit, err error) {
	var value string
	err = s.db.QueryRow(ctx, q, statement, name).Scan(&value)
	if errors.Is(err, sql.ErrNoRows) {
		return store.AgeLimit{}, nil
	}
	if err != nil {
		return store.AgeLimit{}, err
	}
	return decodeAge(value)
}

// encodeAge is "age since before", in microseconds, and the time when the route left, if it has.
func encodeAge(k store.AgeLimit) string {
	value := fmt.Sprintf("%d %d %d", k.Age.Microseconds(), k.Since.UnixMicro(), k.Before.Microseconds())
	if !k.Left.IsZero() {
		value += " " + strconv.FormatInt(k.Left.UnixMicro(), 10)
	}
	return value
}

func decodeAge(value string) (store.AgeLimit, error) {
	bad := fmt.Errorf("idem: gormstore: the kept age of timed keys is %q", value)
	var numbers [4]int64
	fields := strings.Fields(value)
	if len(fields) != 3 && len(fields) != 4 {
		return store.AgeLimit{}, bad
	}
	for i, field := range fields {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return store.AgeLimit{}, bad
		}
		numbers[i] = n
	}
	kept := store.AgeLimit{Age: time.Duration(numbers[0]) * time.Microsecond, Since: time.UnixMicro(numbers[1]),
		Before: time.Duration(numbers[2]) * time.Microsecond}
	if len(fields) == 4 {
		kept.Left = time.UnixMicro(numbers[3])
	}
	return kept, nil
}
