package core

import "net/http"

// HashRequest returns the command hash of a request that is about to be sent, by the rules that a server compares
// repeats with (H-1 to H-3): a caller can tell by it whether it is about to send another command under an old key. body
// is the whole body; r.Body is not read. version is that of an earlier hash to compare with, or 0 for the newest; the
// error says that this release does not know it.
func HashRequest(r *http.Request, body []byte, version int16) (CommandHash, error) {
	if version == 0 {
		version = currentHashVersion
	}
	return command{
		method: r.Method, path: r.URL.EscapedPath(), rawQuery: r.URL.RawQuery, contentType: r.Header.Get("Content-Type"),
		body: body,
	}.hash(version)
}
