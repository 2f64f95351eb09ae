package storage

import "context"

type impatientKey struct{}

// Impatient returns a context for reads during which other work must wait. A store that reads old data over
// a network fails such a read if the data does not arrive soon.
func Impatient(ctx context.Context) context.Context {
	return context.WithValue(ctx, impatientKey{}, true)
}

// IsImpatient reports whether ctx, or a context that it is derived from, was returned by Impatient.
func IsImpatient(ctx context.Context) bool { return ctx.Value(impatientKey{}) != nil }
