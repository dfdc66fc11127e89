package core_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/store"
)

// The values were computed by another program from the layout, SHA-256 over length-prefixed ("call/1", operation, name),
// and RFC 9562, section 5.8. Providers know these keys: a test here that fails is a bug in the code, never in the value.
//
// CONTRACT X-3, C-3
func TestGoldenDerivedKeys(t *testing.T) {
	for _, test := range []struct{ operation, name, key, uuid string }{
		{"0000000000000000000000000000000000000000000000000000000000000000", "",
			"9fe3ba8d13b22d633c62782c7a3c32b5b39609465f44883ebdb71deff5b9168a", "9fe3ba8d-13b2-8d63-bc62-782c7a3c32b5"},
		{"0000000000000000000000000000000000000000000000000000000000000000", "charge",
			"941af45ee9b7f4e279e425a3412040685f9d04cc3fd3e6c187a5ea8115010017", "941af45e-e9b7-84e2-b9e4-25a341204068"},
		{"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f", "charge",
			"db86dff78bd00acae2445f547eafade8c98aee8c7fed66ed18c005218fda7017", "db86dff7-8bd0-8aca-a244-5f547eafade8"},
		{"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f", "refund/1",
			"e5a79a824763039ad0fa82a1a3d4dc0d444a188107e2ca0dfd9beb141de99312", "e5a79a82-4763-839a-90fa-82a1a3d4dc0d"},
		{"a449659225b78f7b3f00d1ad37da0d562dbe0a19d799b520d9a85a8b7b7420ac", "charge",
			"54fd3e50e78c5014c19b3bd40496511f6be639c133e1f6c479cd064105d39de8", "54fd3e50-e78c-8014-819b-3bd40496511f"},
		{"a449659225b78f7b3f00d1ad37da0d562dbe0a19d799b520d9a85a8b7b7420ac", "Überweisung",
			"b54aee66ec895517bd0e7ce1369c8c4e126ace3fe07957d3137b5958a5094115", "b54aee66-ec89-8517-bd0e-7ce1369c8c4e"},
	} {
		operation, err := core.ParseID(test.operation)
		require.NoError(t, err)
		key := operation.DeriveCall(test.name)
		require.Equal(t, test.key, key.String())
		require.Equal(t, test.uuid, key.UUID())
	}
}

// The same for steps, from ("step/1", operation, name).
//
// CONTRACT X-3, C-5
func TestGoldenStepKeys(t *testing.T) {
	for _, test := range []struct{ operation, name, key, uuid string }{
		{"0000000000000000000000000000000000000000000000000000000000000000", "charge",
			"1e5c9d761b509e3c6e4f22d32381cb1463e1d6f8638f87c9064012b797fecc88", "1e5c9d76-1b50-8e3c-ae4f-22d32381cb14"},
		{"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f", "charge",
			"8c2ad50474369b5605ef47c40177937cae056f28e45b7740cc7813cfba6263e3", "8c2ad504-7436-8b56-85ef-47c40177937c"},
		{"a449659225b78f7b3f00d1ad37da0d562dbe0a19d799b520d9a85a8b7b7420ac", "Überweisung",
			"120939ba5a995aeda12139e1366b16edf98c4b1bd4efaf485cb0c974783dba69", "120939ba-5a99-8aed-a121-39e1366b16ed"},
	} {
		operation, err := core.ParseID(test.operation)
		require.NoError(t, err)
		key := operation.DeriveStep(test.name)
		require.Equal(t, test.key, key.String())
		require.Equal(t, test.uuid, key.UUID())
		require.NotEqual(t, operation.DeriveCall(test.name), key)
	}
}

// CONTRACT X-3, D-1, C-3
func TestWhatAttemptsDerive(t *testing.T) {
	t.Run("derived keys are UUIDs of version8", func(t *testing.T) {
		version8 := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
		seen := map[string]bool{}
		for i := range 1000 {
			key := core.ID{byte(i)}.DeriveCall(fmt.Sprint("call ", i/256))
			require.Regexp(t, version8, key.UUID())
			require.Regexp(t, `^[0-9a-f]{64}$`, key.String())
			require.False(t, seen[key.UUID()] || seen[key.String()], "each call has a key of its own")
			seen[key.UUID()], seen[key.String()] = true, true
		}
	})
	t.Run("what a handler learns about its attempt", func(t *testing.T) {
		var keys []core.DerivedKey
		var commands []store.CommandHash
		a := newApp(t, core.Config{}, func(w http.ResponseWriter, r *http.Request) {
			ctx := r.Context()
			operation, ok := core.Operation(ctx)
			require.True(t, ok)
			require.Equal(t, core.Scoping{}.RecordID(alice, "k-1"), operation)
			key, err := core.DeriveCall(ctx, "charge")
			require.NoError(t, err)
			require.Equal(t, operation.DeriveCall("charge"), key)
			command, ok := core.CommandHashOf(ctx)
			require.True(t, ok)
			keys, commands = append(keys, key), append(commands, command)
			core.NotApplied(ctx)
			w.WriteHeader(http.StatusServiceUnavailable)
		})
		a.post("k-1", `{"a":1}`)
		a.post("k-1", `{"a":1}`)
		a.post("k-1", `{"a":2}`)
		require.Len(t, keys, 3)
		require.Equal(t, keys[0], keys[1], "the same in every attempt")
		require.Equal(t, commands[0], commands[1])
		require.NotEqual(t, commands[0], commands[2], "the freed key came back with another command (D-3)")
	})
	t.Run("nothing more once the handler has returned, while its answer is recorded", func(t *testing.T) {
		st := newFaultStore(memstore.New())
		var left context.Context
		a := newApp(t, core.Config{Store: st}, func(w http.ResponseWriter, r *http.Request) {
			left = r.Context()
			created(w, r)
		})
		recorded := st.count("after complete")
		st.on("complete", func(context.Context) error {
			_, err := core.DeriveCall(left, "late")
			require.ErrorContains(t, err, "the attempt is over")
			return nil
		})
		require.Equal(t, http.StatusCreated, a.post("k-1", `{}`).Code)
		require.Equal(t, 1, *recorded)
	})
	t.Run("outside an attempt", func(t *testing.T) {
		ctx := context.Background()
		core.NotApplied(ctx)
		core.KeepRows(ctx)
		_, ok := core.Operation(ctx)
		require.False(t, ok)
		_, ok = core.CommandHashOf(ctx)
		require.False(t, ok)
		_, ok = core.Origin(ctx)
		require.False(t, ok)
		_, err := core.DeriveCall(ctx, "charge")
		require.ErrorIs(t, err, core.ErrNoHandler)
	})
}

// CONTRACT S-5, X-1
func TestReferences(t *testing.T) {
	t.Run("a reference of an attempt that never ends is there, and operators of its realm find it", func(t *testing.T) {
		st := memstore.New()
		var kept context.Context
		a := newApp(t, core.Config{Store: st}, func(w http.ResponseWriter, r *http.Request) {
			kept = r.Context()
			for range 2 { // once, whatever a handler does
				require.NoError(t, core.Reference(r.Context(), "charge", "ch_7"))
			}
			for value, why := range map[string]string{
				"": "nothing", "\u00a07": "a space", "a\nb": "a line", "\x00": "a control character", "\xff": "no UTF-8",
				strings.Repeat("7", store.MaxReferenceValue+1): "too long",
			} {
				require.Error(t, core.Reference(r.Context(), "charge", value), why)
				require.Error(t, core.Reference(r.Context(), value, "7"), why)
			}
			require.NotContains(t, core.Reference(r.Context(), "charge", "se\ncret").Error(), "se", "an error is logged")
			w.WriteHeader(http.StatusInternalServerError)
		})
		require.Equal(t, http.StatusInternalServerError, a.post("k-1", `{}`).Code)
		id := core.Scoping{}.RecordID(alice, "k-1")
		realm := core.Scoping{}.PrincipalRealm(alice)
		found, err := st.Referred(t.Context(), store.Query{Within: realm[:], Refs: []store.Ref{{Value: "ch_7"}}, Limit: 10})
		require.NoError(t, err)
		require.Equal(t, []core.ID{id}, found.IDs)
		refs, err := st.References(t.Context(), []core.ID{id})
		require.NoError(t, err)
		require.Equal(t, []store.Ref{{Name: "charge", Value: "ch_7"}}, refs[id])
		require.Error(t, core.Reference(kept, "charge", "late"), "the handler has returned")
		for _, e := range a.events {
			require.NotContains(t, errors.Join(e.Err, errors.New(e.Who)).Error(), "ch_7")
		}
		require.NoError(t, core.Reference(t.Context(), "charge", "ch_7"), "outside an attempt nothing is kept")
	})
	t.Run("so is one of a Resume handler that has taken no step yet, once it has ended", func(t *testing.T) {
		st := memstore.New()
		a := newApp(t, core.Config{Store: st, Policy: core.Policy{Recovery: core.Resume}}, func(w http.ResponseWriter, r *http.Request) {
			require.NoError(t, core.Reference(r.Context(), "order", "7"))
			created(w, r)
		})
		require.Equal(t, http.StatusCreated, a.post("k-1", `{}`).Code)
		found, err := st.Referred(t.Context(), store.Query{Refs: []store.Ref{{Value: "7"}}, Limit: 10})
		require.NoError(t, err)
		require.Equal(t, []core.ID{core.Scoping{}.RecordID(alice, "k-1")}, found.IDs)
	})
}
