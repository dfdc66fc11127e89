package gormstore

import (
	"net/http"
	"reflect"
	"testing"
	"unicode/utf8"
)

// Headers come back as they were, byte for byte; what is no stored form of them is an error and no panic.
//
// CONTRACT R-3, M-3
func FuzzHeaders(f *testing.F) {
	f.Add("Location", "/v1/payments/1", "", []byte(`{"Location":["/1"]}`))
	f.Add("Link", "caf\xe9 \xff\x00", "é€\U0001f600", []byte(`{"Link":["\u00e9",null]}`))
	f.Add("", "", "\ufffd", []byte("null"))
	f.Fuzz(func(t *testing.T, name, first, second string, stored []byte) {
		if utf8.ValidString(name) { // a header's name is a token
			roundTrip(t, http.Header{name: {first, second}})
		}
		if h, err := decodeHeaders(stored); err == nil && len(h) > 0 {
			roundTrip(t, h)
		}
	})
}

func roundTrip(t *testing.T, h http.Header) {
	t.Helper()
	stored, err := encodeHeaders(h)
	if err != nil {
		t.Fatal(err)
	}
	again, err := decodeHeaders(stored)
	if err != nil || !reflect.DeepEqual(h, again) {
		t.Fatalf("%q came back as %q: %v", h, again, err)
	}
}
