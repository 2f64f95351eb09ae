// Package storage is the contract between the ledger and the place where its
// truth is kept (specification 5.2): ledgers, heads, entries, hash tiles,
// content, idempotency keys and a few named settings. Nothing that can be
// derived from the log is behind it.
//
// Implementations are storage/pebble (the default) and storage/memory (tests);
// storage/storagetest is the one suite that all of them pass.
package storage

import (
	"context"
	"errors"
	"iter"
	"time"
)

// Sentinels on which callers branch. Any other error of Store.Commit means
// that the outcome is unknown: the caller must stop writing and recover by
// opening the ledger again.
var (
	// ErrNotFound: no such ledger, entry, tile, content, redaction, key or setting.
	ErrNotFound = errors.New("storage: not found")
	// ErrConflict: the stored head is not the one that the commit builds on,
	// or a ledger of that name exists. Nothing was written.
	ErrConflict = errors.New("storage: conflict")
	// ErrFrozen: the ledger is frozen and takes no commits. Nothing was written.
	ErrFrozen = errors.New("storage: ledger is frozen")
	// ErrNoSpace: free space is below the mark; nothing was tried, and writing
	// goes on when there is room.
	ErrNoSpace = errors.New("storage: free space below the mark")
	// ErrInUse: another process holds the database.
	ErrInUse = errors.New("storage: in use by another process")
	// ErrFormat: the database was written in a format that this build does
	// not know.
	ErrFormat = errors.New("storage: unknown format version")
	// ErrDamaged: files of the database are not as they were written, so that it cannot
	// be opened, or not all of it be read. Nothing was changed.
	ErrDamaged = errors.New("storage: damaged")
)

// Hash is a SHA-256 value.
type Hash = [32]byte

// Info describes a ledger. Only Frozen ever changes.
type Info struct {
	Name    string    // lower-case letters, digits and '-', at most 64 bytes
	Origin  string    // checkpoint origin (2.9)
	Created time.Time // UTC
	Frozen  bool      // writes are refused for ever
	// RejectMismatch: records whose claims do not hold are refused unless the
	// request says otherwise (2.4). It never changes.
	RejectMismatch bool
}

// Head is the state of a log after a commit. The zero Head is that of a ledger
// without entries.
type Head struct {
	Size       uint64 // number of entries
	Tip        Hash   // event_hash of the last entry; zero bytes when there is none
	Time       int64  // time of the last event, microseconds since 1970 UTC
	Checkpoint []byte // signed note over Size and the root at that size
}

// Content is one piece of content and the place where it was posted.
type Content struct {
	Digest Hash
	Seq    uint64 // event that brought it
	Slot   uint16 // position among that event's content
	Bytes  []byte
}

// Redaction: the event By withdraws the content of the record at Seq (2.3).
type Redaction struct {
	Seq uint64 // of the record; before the batch
	By  uint64 // of the content_redacted event; in the batch
	// Digests of all content that the record names: what it needs no more.
	// Digests that it does not need, or no longer, are ignored.
	Digests []Hash
}

// Key is an idempotency key: what it stands for and the event it led to.
type Key struct {
	Key    Hash // digest of the key itself (2.7)
	Record Hash // canonical digest of the record that claimed it
	Seq    uint64
}

// Tile is the whole present value of one hash tile: 32 bytes a hash, at most
// 256 hashes. A tile only ever grows; a later value begins with the earlier.
type Tile struct {
	Level  uint8
	Index  uint64
	Hashes []byte
}

// Batch is everything that one commit makes durable, or nothing of it.
type Batch struct {
	Head    Head
	Entries [][]byte // seq of the first is the old head's Size
	Tiles   []Tile
	// Contents were brought by events of this batch, each in a slot of its own,
	// and stand in the order of those. Every event needs what it brought until it is redacted. What the ledger
	// holds already is not stored again.
	Contents []Content
	// Redactions come before Contents: content that no record needs any more is
	// deleted with all that leads to it, and what the same batch brings is
	// stored after that. Of several redactions of one record the first stands,
	// and the others are ignored.
	Redactions []Redaction
	// Keys are claimed by events of this batch; a key that is claimed already
	// passes to the later event.
	Keys []Key
}

// Reader reads one ledger. It never waits for a writer. Methods are safe for
// concurrent use, and the slices they return are the caller's. A context that
// is done before the call gives its error. What is missing or unreadable below
// the head is damage: an error that says what and where, never ErrNotFound.
type Reader interface {
	// Head is the last committed head.
	Head(ctx context.Context) (Head, error)
	// Tile is the present value of a tile; ErrNotFound if it has no hash yet.
	// While a commit is under way it may already be longer than the head needs;
	// whoever reads a tile takes the prefix that his tree size covers.
	Tile(ctx context.Context, level uint8, index uint64) ([]byte, error)
	// Entry is the entry at seq; ErrNotFound at or beyond the head.
	Entry(ctx context.Context, seq uint64) ([]byte, error)
	// Entries yields (seq, entry) from a sequence number upwards, in order and
	// without gaps, up to the head at the time of the call. The slice is valid
	// only until the next step and must not be changed. A missing entry ends it
	// with an error.
	Entries(ctx context.Context, from uint64) iter.Seq2[Entry, error]
	// Content is the bytes stored under that SHA-256 (the store does not hash
	// them); ErrNotFound if never held or erased.
	Content(ctx context.Context, digest Hash) ([]byte, error)
	// References yields the seqs of the records that need that content, each
	// once, in ascending order; none if it was never held or is erased. Records
	// at or beyond the head at the time of the call are left out; of those that
	// are redacted while it goes on, some may be missing.
	References(ctx context.Context, digest Hash) iter.Seq2[uint64, error]
	// Referenced reports whether the record at seq needs that content, as
	// References has it.
	Referenced(ctx context.Context, digest Hash, seq uint64) (bool, error)
	// Redaction is the seq of the event that withdrew the content of the record
	// at seq; ErrNotFound if none did below the head.
	Redaction(ctx context.Context, seq uint64) (by uint64, err error)
	// Redactions yields all redactions that are stored, in the order of their
	// records and without digests. Those of commits after the call are left out;
	// what no commit can have written, of or by an event that is not below the
	// head, is not: to say that it is damage is the caller's.
	Redactions(ctx context.Context) iter.Seq2[Redaction, error]
	// Key is the claim of an idempotency key; ErrNotFound if unclaimed, or
	// claimed at or beyond the head.
	Key(ctx context.Context, key Hash) (Key, error)
	// Keys is the claims of several idempotency keys, as Key has them, looked up
	// together: one for each key that is claimed, in no particular order.
	Keys(ctx context.Context, keys []Hash) ([]Key, error)
	// Setting is a named value of this ledger; ErrNotFound if unset.
	Setting(ctx context.Context, name string) ([]byte, error)
}

// Entry is one entry and its position.
type Entry struct {
	Seq   uint64
	Bytes []byte
}

// Store is one ledger, open for reading and writing.
type Store interface {
	Reader
	// Info is the ledger's description as it is now.
	Info(ctx context.Context) (Info, error)
	// Commit makes b durable, atomically and with one sync, if the stored head
	// still equals old (Size and Tip); ErrConflict otherwise, ErrFrozen once the
	// ledger is frozen. On return every part of b survives the loss of power. A
	// batch that does not follow old (Batch.Check) is refused unwritten.
	Commit(ctx context.Context, old Head, b Batch) error
	// Freeze marks the ledger frozen, durably. It cannot be undone.
	Freeze(ctx context.Context) error
	// SetSetting stores a named value, durably.
	SetSetting(ctx context.Context, name string, value []byte) error
	// Writable is nil if a commit may be tried, ErrNoSpace if not.
	Writable(ctx context.Context) error
}

// Database holds all ledgers of one server.
type Database interface {
	// Ledgers lists them by name.
	Ledgers(ctx context.Context) ([]Info, error)
	// Ledger opens one; ErrNotFound if there is none of that name. Two calls
	// give handles on the same state.
	Ledger(ctx context.Context, name string) (Store, error)
	// Create makes an empty ledger, durably; ErrConflict if the name is taken.
	Create(ctx context.Context, info Info) (Store, error)
	// Close releases everything. No Store may be used afterwards.
	Close() error
}
