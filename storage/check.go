package storage

import "context"

// KeyChecker is a Database that can hold everything that is stored against the logs.
type KeyChecker interface {
	// CheckKeys reads every key of the database. Each must follow from one of the logs,
	// which are by the names of their ledgers, or belong to a ledger that is not among
	// them. It returns the first stray of each ledger, and of the database as a whole.
	// It takes a bounded amount of memory. The caller keeps writers away. progress, if
	// not nil, is called now and then with the number of keys read.
	CheckKeys(ctx context.Context, logs map[string]LogSummary, progress func(keys uint64)) ([]*Stray, error)
}

// LogSummary is what a walk of a ledger's log came to. The walk has seen that everything
// that the log names is stored.
type LogSummary struct {
	Needs  uint64 // pairs of a record that is not redacted and a content that it names
	Claims uint64 // events that claim an idempotency key
	// Event reads an event of the log again. It is called for few keys, unless there are
	// more of a kind than the log names.
	Event func(ctx context.Context, seq uint64) (EventSummary, error)
	// Setting is an error for a setting that the ledger does not have, or a value that
	// the setting cannot have.
	Setting func(name string, value []byte) error
}

// EventSummary is what storage keeps for one event.
type EventSummary struct {
	Contents []Hash // of the content that it names, in any order
	Key      *Hash  // idempotency key that it claims; nil for none
	Time     int64  // microseconds since 1970 UTC
}

// StrayKind says what a stray is.
type StrayKind string

// The kinds of strays.
const (
	StrayEntry     StrayKind = "entry"
	StrayTile      StrayKind = "tile"
	StrayContent   StrayKind = "content"
	StrayRedaction StrayKind = "redaction"
	StrayClaim     StrayKind = "key"      // a claim of an idempotency key
	StrayDatabase  StrayKind = "database" // anything else
)

// Stray is something stored that follows from no log.
type Stray struct {
	Ledger  string // empty: of the database as a whole
	Kind    StrayKind
	Seq     uint64 // event that it is about; the ledger's size if it is about none
	Message string
}

// Error is kind and message.
func (s *Stray) Error() string { return string(s.Kind) + ": " + s.Message }
