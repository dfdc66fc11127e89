package core

import (
	"encoding/json"
	"net/http"
	"strings"
)

// relaysUnfinished reports whether an answer is the problem of another service of this library that says "not now" or "it is
// not known". A handler has passed it on. Recorded, it would be replayed after the money has moved (R-9). The media type,
// "type" and "code" together tell it from an app's own problem: Config.ProblemBase is not known of another service, but the
// code follows it.
func relaysUnfinished(h http.Header, body []byte) bool {
	media, _, _ := strings.Cut(h.Get("Content-Type"), ";") // the parameters do not count, and nothing is allocated
	if !strings.EqualFold(strings.TrimSpace(media), problemType) {
		return false
	}
	var problem struct {
		Type string `json:"type"`
		Code Code   `json:"code"`
	}
	if json.Unmarshal(body, &problem) != nil {
		return false
	}
	switch problem.Code {
	case CodeInFlight, CodeOutcomeUnknown, CodeStoreUnavailable, CodeCommitUnconfirmed, CodeRolledBack:
		base, followed := strings.CutSuffix(problem.Type, string(problem.Code))
		return followed && checkProblemBase(base) == nil
	}
	return false
}
