package storage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// ArchiveSetting is the name of the setting that contains a ledger's ArchivedRange.
const ArchiveSetting = "archive"

// ArchivedRange describes the part of a log that was moved to a published copy. The store no longer
// contains the entries below EndSeq, except for a few that Archive was told to keep. It also no
// longer contains the level-0 tiles that cover those entries. It still contains the tiles of higher
// levels, which are used to verify data from the copy.
type ArchivedRange struct {
	EndSeq uint64 `json:"below"` // seq at which the archived range ends (exclusive), a multiple of HashesPerTile
	URL    string `json:"place"` // the URL of the copy, without credentials
}

// ParseArchivedRange reads the value of ArchiveSetting.
func ParseArchivedRange(value []byte) (ArchivedRange, error) {
	var a ArchivedRange
	if err := json.Unmarshal(value, &a); err != nil {
		return a, fmt.Errorf("%w: the setting %q has the invalid value %.100q: %w", ErrDamaged, ArchiveSetting, value, err)
	}
	if a.EndSeq%HashesPerTile != 0 {
		return a, fmt.Errorf("%w: the setting %q says that %d entries are archived, but the number must be a multiple of 256", ErrDamaged, ArchiveSetting, a.EndSeq)
	}
	return a, nil
}

// ReadArchivedRange returns the value of a log's ArchiveSetting, or the zero ArchivedRange if the
// setting is absent.
func ReadArchivedRange(ctx context.Context, log Reader) (ArchivedRange, error) {
	value, err := log.Setting(ctx, ArchiveSetting)
	if errors.Is(err, ErrNotFound) {
		return ArchivedRange{}, nil
	}
	if err != nil {
		return ArchivedRange{}, err
	}
	return ParseArchivedRange(value)
}

// ExplainMissingEntry returns the error for an entry that is missing from a ledger of the given
// size. This is an ArchivedError if the entry was archived, and an error that wraps ErrDamaged
// otherwise.
func ExplainMissingEntry(ctx context.Context, log Reader, seq, size uint64) error {
	return unlessArchived(ctx, log, fmt.Errorf("%w: entry %d of %d is missing", ErrDamaged, seq, size),
		func(a ArchivedRange) bool { return a.CoversEntry(seq) })
}

// ExplainMissingTile returns the error for a tile that is not stored: an ArchivedError if the tile
// was archived, and otherwise ErrNotFound.
func ExplainMissingTile(ctx context.Context, log Reader, level uint8, index uint64) error {
	return unlessArchived(ctx, log, ErrNotFound, func(a ArchivedRange) bool { return a.CoversTile(level, index) })
}

// unlessArchived returns an ArchivedError if has reports that the missing item was archived, and
// err otherwise. If the setting cannot be read, it returns the error from reading it.
func unlessArchived(ctx context.Context, log Reader, err error, has func(ArchivedRange) bool) error {
	a, failed := ReadArchivedRange(ctx, log)
	switch {
	case failed != nil:
		return failed
	case has(a):
		return &ArchivedError{ArchivedRange: a}
	}
	return err
}

// SettingValue encodes a as the value of ArchiveSetting. ParseArchivedRange decodes it.
func (a ArchivedRange) SettingValue() []byte {
	text, _ := json.Marshal(a) // cannot fail
	return text
}

// CheckCanReplace returns an error unless a can replace before in a ledger with size entries.
// a.EndSeq must be a multiple of HashesPerTile, at least before.EndSeq, and less than size. The
// last entry therefore stays in the store. The error wraps ErrConflict if a.EndSeq is less than
// before.EndSeq.
func (a ArchivedRange) CheckCanReplace(before ArchivedRange, size uint64) error {
	switch {
	case a.EndSeq%HashesPerTile != 0:
		return fmt.Errorf("cannot archive %d entries, because the number must be a multiple of 256", a.EndSeq)
	case a.EndSeq >= size:
		return fmt.Errorf("cannot archive %d entries of a ledger with %d entries, because the last entry must stay in the database", a.EndSeq, size)
	case a.EndSeq < before.EndSeq:
		return fmt.Errorf("%w: %d entries are already archived, which is more than the requested %d", ErrConflict, before.EndSeq, a.EndSeq)
	}
	return nil
}

// CoversEntry reports whether an entry may be missing from the store.
func (a ArchivedRange) CoversEntry(seq uint64) bool { return seq < a.EndSeq }

// CoversTile reports whether a tile may be missing from the store.
func (a ArchivedRange) CoversTile(level uint8, index uint64) bool {
	return level == 0 && index < a.EndSeq/HashesPerTile
}

// ArchivedError means that the requested item is not in the store but in a copy of the log.
type ArchivedError struct{ ArchivedRange }

// Error says where the copy is, and which options give access to it.
func (e *ArchivedError) Error() string {
	return fmt.Sprintf("the entries below %d are not in the database, but in the published copy at %s; use --archive and --publish with the URL of that copy", e.EndSeq, e.URL)
}

// Archiver is a Store that can archive old entries. Its methods Entry, Entries, and Tile return an
// ArchivedError for archived items.
type Archiver interface {
	Store
	// Archive deletes the entries below a.EndSeq, except for those in keep, deletes the level-0
	// tiles that cover the archived entries, and stores a. The change is atomic and durable. If
	// Archive returns an error, the change was made completely or not at all. The caller must have
	// verified that the copy contains everything that Archive deletes. Archive does not delay
	// commits. It returns ErrConflict if more entries have already been archived.
	Archive(ctx context.Context, a ArchivedRange, keep []uint64) error
}
