package storage

import "context"

// KeyChecker is a Database that can compare every stored key with the logs.
type KeyChecker interface {
	// CheckKeys reads every key of the database in bounded memory, and returns the first stray key
	// of each ledger and of the database itself. A key is stray if it does not follow from any log.
	// logs maps the name of a ledger to a summary of its log. CheckKeys does not check the keys of
	// other ledgers. The caller must make sure that nothing writes to the database. If progress is
	// not nil, CheckKeys calls it from time to time with the number of keys read so far.
	CheckKeys(ctx context.Context, logs map[string]LogSummary, progress func(keys uint64)) ([]*StrayKeyError, error)
}

// LogSummary is the result of a walk over a ledger's log. The walk has already checked that
// everything that the log refers to is stored.
type LogSummary struct {
	ContentReferenceCount uint64 // number of pieces of content that unredacted records refer to, counted once per record
	ClaimCount            uint64 // number of events that claim an idempotency key
	// ReadEvent reads one event of the log again. It is called for only a few keys, unless the database
	// contains more keys of some kind than the log accounts for.
	ReadEvent func(ctx context.Context, seq uint64) (EventSummary, error)
	// CheckSetting returns an error for an unknown setting, or for a value that the setting
	// cannot have.
	CheckSetting func(name string, value []byte) error
}

// EventSummary holds what storage keeps about an event besides its entry.
type EventSummary struct {
	ContentDigests []Hash // digests of the content that the event names, in any order
	IdempotencyKey *Hash  // idempotency key that the event claims; nil if it claims none
	TimeMicros     int64  // time of the event, in microseconds since 1970 UTC
}

// StrayKind says what kind of item a stray key is for.
type StrayKind string

// The kinds of stray keys.
const (
	StrayEntry     StrayKind = "entry"     // a log entry
	StrayTile      StrayKind = "tile"      // a hash tile
	StrayContent   StrayKind = "content"   // a piece of content, its location, or a reference to it
	StrayRedaction StrayKind = "redaction" // a redaction
	StrayClaim     StrayKind = "key"       // a claim of an idempotency key
	StrayOther     StrayKind = "database"  // anything else
)

// StrayKeyError describes a stored key that no ledger's log accounts for.
type StrayKeyError struct {
	Ledger  string // empty for the database itself
	Kind    StrayKind
	Seq     uint64 // seq of the event to which the key refers, or the ledger's size if it refers to none
	Message string // what is wrong, in words
}

// Error returns the kind and the message, separated by a colon.
func (s *StrayKeyError) Error() string { return string(s.Kind) + ": " + s.Message }
