package idemclient

import (
	"net/http"
	"strconv"
	"testing"
	"time"
)

// Whatever a server says, the pause is not negative, and a number of seconds is what it says.
//
// CONTRACT C-2
func FuzzRetryAfter(f *testing.F) {
	const date = "Mon, 02 Jan 2006 15:04:05 GMT"
	for _, value := range []string{"", "0", "2", " 2\t", "-1", "+1", "1.5", "00000000000000000000001", "9223372036854775807",
		"99999999999999999999", date, "Sun, 06 Nov 9999 08:49:37 GMT", "Mon, 01 Jan 0001 00:00:00 GMT", "\x00"} {
		f.Add(value, "")
		f.Add(value, date)
	}
	f.Fuzz(func(t *testing.T, value, date string) {
		header := http.Header{"Retry-After": {value}, "Date": {date}}
		pause := retryAfter(header, time.Unix(1136214245, 0))
		if pause < 0 {
			t.Fatalf("%q: %v", value, pause)
		}
		if seconds, err := strconv.ParseUint(value, 10, 31); err == nil && pause != time.Duration(seconds)*time.Second {
			t.Fatalf("%q: %v", value, pause)
		}
	})
}
