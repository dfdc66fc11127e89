package idemclient

import "context"

type intentKey struct{}

// WithIntent returns a context with the intent of a request, for a [Client] that is used as an [http.RoundTripper]. Use
// it for one command only: another command needs another intent.
func WithIntent(ctx context.Context, intent string) context.Context {
	return context.WithValue(ctx, intentKey{}, intent)
}

func intentFrom(ctx context.Context) string {
	intent, _ := ctx.Value(intentKey{}).(string)
	return intent
}
