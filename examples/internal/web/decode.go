package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
)

var (
	errMalformed = errors.New("the body is not the JSON object that this route expects")
	errTooLarge  = errors.New("the body is too large")
	errMediaType = errors.New("the body must be application/json")
)

// maxBody is the longest body in bytes on routes without an idempotency key. On the other routes core has its own limit.
const maxBody = 1 << 20

// Decode reads the body of r, one JSON object, into v. Members that v does not know are ignored.
func Decode(r *http.Request, v any) error {
	if !isJSON(r.Header.Get("Content-Type")) {
		return errMediaType
	}
	decoder := json.NewDecoder(http.MaxBytesReader(nil, r.Body, maxBody))
	err := decoder.Decode(v)
	if err == nil && decoder.Decode(&struct{}{}) != io.EOF {
		return fmt.Errorf("%w: there is more after it", errMalformed)
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return errTooLarge
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
		return fmt.Errorf("%w: %s has the wrong type", errMalformed, wrong.Field)
	}
	if err != nil {
		return errMalformed
	}
	return nil
}

// isJSON reports whether a body of this content type is read as JSON. A body without a content type is.
func isJSON(contentType string) bool {
	media, _, err := mime.ParseMediaType(contentType)
	return contentType == "" || err == nil && (media == "application/json" || strings.HasSuffix(media, "+json"))
}
