package storage

import "context"

// KeyChecker is a Database that can compare every stored key with the logs.
type KeyChecker interface {
	// CheckKeys reads every key of the database in bounded memory, and returns the first stray key
	// of each ledger and of the database itself. A key is stray if it does not follow from any log.
	// logs maps the name of a ledger to a summary of its log; the keys of ledgers that it does not
	// contain are not checked. The caller must make sure that nothing writes to the database.
	// progress, if not nil, is called from time to time with the number of keys read so far.
	CheckKeys(ctx context.Context, logs map[string]LogSummary, progress func(keys uint64)) ([]*StrayKey, error)
}

// LogSummary is the result of a walk over a ledger's log. The walk has already checked that
// everything that the log names is stored.
type LogSummary struct {
	Needs  uint64 // number of pieces of content that unredacted records name, counted once per record
	Claims uint64 // number of events that claim an idempotency key
	// Event reads one event of the log again. It is called for only a few keys, unless more
	// keys of a kind are stored than the log names.
	Event func(ctx context.Context, seq uint64) (EventSummary, error)
	// Setting returns an error for an unknown setting, or for a value that the setting
	// cannot have.
	Setting func(name string, value []byte) error
}

// EventSummary holds what storage keeps about an event besides its entry.
type EventSummary struct {
	Contents []Hash // digests of the content that the event names, in any order
	Key      *Hash  // idempotency key that the event claims; nil if it claims none
	Time     int64  // microseconds since 1970 UTC
}

type StrayKind string

// The kinds of stray keys.
const (
	StrayEntry     StrayKind = "entry"
	StrayTile      StrayKind = "tile"
	StrayContent   StrayKind = "content"
	StrayRedaction StrayKind = "redaction"
	StrayClaim     StrayKind = "key"      // a claim of an idempotency key
	StrayDatabase  StrayKind = "database" // anything else
)

// StrayKey is a stored key that does not follow from any log.
type StrayKey struct {
	Ledger  string // empty for the database itself
	Kind    StrayKind
	Seq     uint64 // the event that the key concerns, or the ledger's size if it concerns none
	Message string
}

// Error returns the kind and the message, separated by a colon.
func (s *StrayKey) Error() string { return string(s.Kind) + ": " + s.Message }
