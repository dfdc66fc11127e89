package idemclient

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// retryAfter reads Retry-After (RFC 9110, section 10.2.3): seconds, or a date, which is taken against the answer's own
// Date, so that it does not matter how far the two clocks are apart. 0 if there is none, or if it cannot be read.
func retryAfter(header http.Header, now time.Time) time.Duration {
	value := strings.Trim(header.Get("Retry-After"), " \t")
	if value == "" {
		return 0
	}
	if strings.Trim(value, "0123456789") == "" {
		seconds, err := strconv.ParseInt(value, 10, 64)
		if err != nil || seconds > math.MaxInt64/int64(time.Second) {
			return math.MaxInt64 // more than can be counted
		}
		return time.Duration(seconds) * time.Second
	}
	date, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	if theirs, err := http.ParseTime(header.Get("Date")); err == nil {
		now = theirs
	}
	return max(0, date.Sub(now))
}
