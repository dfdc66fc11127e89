package idemclient

import "context"

type intentKey struct{}

// WithIntent returns a context in which a [Client] as an [http.RoundTripper] finds the intent of the request. It is for
// one command: another one needs another intent.
func WithIntent(ctx context.Context, intent string) context.Context {
	return context.WithValue(ctx, intentKey{}, intent)
}

func intentFrom(ctx context.Context) string {
	intent, _ := ctx.Value(intentKey{}).(string)
	return intent
}
