// Package storage defines the contract between the ledger and the store that keeps its data:
// ledgers, heads, entries, hash tiles, content, idempotency keys, and a few named settings. Other
// data that can be derived from the log, such as the index, is kept elsewhere.
//
// Implementations are storage/pebble (the default), storage/postgres, and storage/memory (for
// tests). All of them pass the test suite storage/storagetest.
package storage

import (
	"context"
	"errors"
	"iter"
	"time"
)

// Errors that callers distinguish. If Store.Commit returns any other error, the outcome is unknown:
// the caller must stop writing, and recover by opening the ledger again.
var (
	// ErrNotFound means that there is no such ledger, entry, tile, content, redaction, key, or
	// setting.
	ErrNotFound = errors.New("storage: not found")
	// ErrConflict means that the commit does not build on the stored head, or that a ledger with
	// that name already exists. Nothing was written.
	ErrConflict = errors.New("storage: conflict")
	// ErrFrozen means that the ledger is frozen and accepts no commits. Nothing was written.
	ErrFrozen = errors.New("storage: the ledger is frozen")
	// ErrNoSpace means that too little space is free for a write. Nothing was written. Writes
	// succeed again when there is space.
	ErrNoSpace = errors.New("storage: too little free space")
	// ErrInUse means that this process or another one already has the database open.
	ErrInUse = errors.New("storage: the folder is already in use")
	// ErrLeaseNotHeld means that several servers share the database, and that this server does not hold
	// the ledger's lease. Nothing was written.
	ErrLeaseNotHeld = errors.New("storage: this server does not hold the lease on the ledger")
	// ErrUnavailable means that the database does not respond, or that it has aborted the
	// operation. A read may succeed later. If a commit returns ErrUnavailable, the outcome is
	// unknown.
	ErrUnavailable = errors.New("storage: the database does not respond")
	// ErrLogOnly means that the database is a copy that contains only logs, without content or
	// secrets.
	ErrLogOnly = errors.New("storage: the database contains only the log")
	// ErrUnknownFormat means that this build does not know the format of the database.
	ErrUnknownFormat = errors.New("storage: unknown format version")
	// ErrDamaged means that files of the database were changed after they were written. The
	// database cannot be opened, or parts of it cannot be read. The operation changed nothing.
	ErrDamaged = errors.New("storage: damaged")
)

// Hash is a SHA-256 value.
type Hash = [32]byte

// LedgerInfo describes a ledger. After creation, only Frozen can change.
type LedgerInfo struct {
	Name    string    // up to 64 lower-case letters, digits, or '-'
	Origin  string    // checkpoint origin (spec: Origin and keys)
	Created time.Time // UTC
	Frozen  bool      // whether the ledger refuses all further commits
	// RejectMismatch makes the ledger refuse records whose content does not match their claims,
	// unless the request says otherwise (spec: Refusals).
	RejectMismatch bool
}

// Head is the state of a log after a commit. A ledger without entries has the zero Head.
type Head struct {
	Size       uint64 // number of entries
	Tip        Hash   // event_hash of the last entry; zero if there are no entries
	TimeMicros int64  // time of the last event, in microseconds since 1970 UTC
	Checkpoint []byte // signed note that contains Size and the tree's root hash
}

// Content is one piece of content that was posted with an event.
type Content struct {
	Digest Hash   // SHA-256 of Bytes
	Seq    uint64 // seq of the event that the content was posted with
	Slot   uint16 // position among the pieces of content posted with the same event
	Bytes  []byte
}

// Redaction says that the event at RedactingSeq redacts the record at Seq (spec: Redactions).
type Redaction struct {
	Seq          uint64 // seq of the redacted record, which an earlier Batch committed
	RedactingSeq uint64 // seq of the content_redacted event in the Batch that stores the redaction
	// Digests lists the digests of all content that the redacted record names. Content stays in the
	// ledger as long as another record needs it.
	Digests []Hash
}

// Claim says which record claimed an idempotency key, and which event logged that record.
type Claim struct {
	KeyDigest    Hash   // digest of the key itself (spec: Idempotency)
	RecordDigest Hash   // digest of the record that claimed the key
	Seq          uint64 // seq of the event that logged that record
}

// Tile is the current value of one hash tile: 1 to 256 hashes of 32 bytes. A tile only grows: each
// value begins with the earlier values.
type Tile struct {
	Level  uint8  // 0 for tiles of leaf hashes
	Index  uint64 // position among the tiles of the level, from 0
	Hashes []byte // 1 to 256 hashes of 32 bytes, concatenated
}

// Batch is everything that one commit makes durable together.
type Batch struct {
	Head    Head     // head after the commit
	Entries [][]byte // the seq of the first entry is the Size of the head before the commit
	Tiles   []Tile   // tiles that the commit changes
	// Contents is the content posted with the events of this batch, in the order of the events.
	// Each piece has a slot within its event. An event needs its content until the event is
	// redacted. Content that the ledger already has is stored only once.
	Contents []Content
	// Redactions are applied before Contents. Content that no record needs any longer is deleted,
	// along with the references to it. After that, the content of this batch is stored. If a record
	// has several redactions, the first one is stored.
	Redactions []Redaction
	// Claims are the idempotency keys that events of this batch claim. If a key has already been
	// claimed, the claim passes to the later event.
	Claims []Claim
}

// Reader reads one ledger. Its methods are safe for concurrent use, and do not normally wait for a
// writer. The caller owns the slices that they return. If the context is done before the call, they
// return its error. If an entry below the head is missing, or any item is unreadable, that is
// damage: the error names the item and is never ErrNotFound. For an archived item, the error is an
// ArchivedError (see Archiver).
type Reader interface {
	// Head returns the last committed head.
	Head(ctx context.Context) (Head, error)
	// Tile returns the current value of a tile, or ErrNotFound if the tile has no hash yet. During
	// a commit, the value can already be longer than the head requires, so readers must use only
	// the prefix that their tree size covers.
	Tile(ctx context.Context, level uint8, index uint64) ([]byte, error)
	// Entry returns the entry at seq, or ErrNotFound if seq is at or beyond the head.
	Entry(ctx context.Context, seq uint64) ([]byte, error)
	// Entries yields the entries starting at sequence number from, in order and without gaps, up to
	// the head at the time of the call. The bytes of an entry are valid only until the next
	// iteration and must not be changed. A missing entry ends the iteration with an error.
	Entries(ctx context.Context, from uint64) iter.Seq2[Entry, error]
	// Content returns the bytes stored under the given SHA-256 digest. It returns ErrNotFound if
	// the ledger never had them, or if they have been erased. The store does not check the hash.
	Content(ctx context.Context, digest Hash) ([]byte, error)
	// References yields the seqs of the records that need a piece of content, in ascending order
	// and without duplicates. It yields nothing if the ledger never had the content or if the
	// content has been erased. It covers records below the head at the time of the call. Records
	// that are redacted during the iteration can be missing.
	References(ctx context.Context, digest Hash) iter.Seq2[uint64, error]
	// HasReference reports whether References would yield seq for the given digest.
	HasReference(ctx context.Context, digest Hash, seq uint64) (bool, error)
	// RedactingSeq returns the seq of the event that redacted the record at seq, or ErrNotFound if
	// no event below the head redacted it.
	RedactingSeq(ctx context.Context, seq uint64) (by uint64, err error)
	// Redactions yields all stored redactions, sorted by the seq of the redacted record and without
	// digests. It omits redactions that are committed after the call. It includes redactions whose
	// event or record is beyond the head. No commit can have written those, so the caller must
	// treat them as damage.
	Redactions(ctx context.Context) iter.Seq2[Redaction, error]
	// KeyClaim returns the claim of an idempotency key, or ErrNotFound if no event below the head
	// claims it.
	KeyClaim(ctx context.Context, key Hash) (Claim, error)
	// KeyClaims looks up several idempotency keys together. It returns one claim for each key that
	// has been claimed, in no particular order.
	KeyClaims(ctx context.Context, keys []Hash) ([]Claim, error)
	// Setting returns a named value of this ledger, or ErrNotFound if it is not set.
	Setting(ctx context.Context, name string) ([]byte, error)
}

// Entry is one entry of the log and its sequence number.
type Entry struct {
	Seq   uint64
	Bytes []byte
}

// Store is one ledger, open for reading and writing.
type Store interface {
	Reader
	// Info returns the ledger's current description.
	Info(ctx context.Context) (LedgerInfo, error)
	// Commit makes b durable, atomically and with one sync. It returns ErrConflict unless the
	// stored head has the same Size and Tip as old. It returns ErrFrozen if the ledger is frozen.
	// Once Commit has returned nil, all of b survives a power failure. If b.Check returns an error,
	// Commit returns it and writes nothing.
	Commit(ctx context.Context, old Head, b Batch) error
	// Freeze marks the ledger as frozen, durably. This cannot be undone.
	Freeze(ctx context.Context) error
	// SetSetting durably stores a named value, replacing any earlier one.
	SetSetting(ctx context.Context, name string, value []byte) error
	// CheckWritable returns nil if a commit can be attempted, and ErrNoSpace if there is too little
	// free space.
	CheckWritable(ctx context.Context) error
}

// LeasedStore is a Store in a database that several servers may share. Only the server that holds a
// ledger's lease can write to it; on any other server, every write returns ErrLeaseNotHeld.
type LeasedStore interface {
	Store
	// HoldsLease reports whether this server holds the ledger's lease. It never waits for a write.
	HoldsLease() bool
}

// Database contains all ledgers of one server.
type Database interface {
	// Ledgers returns the descriptions of the ledgers, sorted by name.
	Ledgers(ctx context.Context) ([]LedgerInfo, error)
	// Ledger opens a ledger, or returns ErrNotFound if it does not exist. Stores that are opened
	// under the same name share their state.
	Ledger(ctx context.Context, name string) (Store, error)
	// CreateLedger creates an empty ledger, durably. It returns ErrConflict if a ledger with the
	// same name already exists.
	CreateLedger(ctx context.Context, info LedgerInfo) (Store, error)
	// Close releases all resources. No Store of this database may be used afterwards.
	Close() error
}
