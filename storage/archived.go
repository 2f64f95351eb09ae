package storage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// ArchiveSetting names the setting that says what a ledger has in its archive.
const ArchiveSetting = "archive"

// Archived says which entries are only in a published copy of the log: those below Below, but
// for a few that the store keeps. The tiles of level 0 over them are only there too. The tiles of
// higher levels stay in the store, and verify what is read from the copy.
type Archived struct {
	Below uint64 `json:"below"` // a multiple of TileHashes
	Place string `json:"place"` // the URL of the copy, without credentials
}

// ParseArchived reads the value of ArchiveSetting.
func ParseArchived(value []byte) (Archived, error) {
	var a Archived
	if err := json.Unmarshal(value, &a); err != nil {
		return a, fmt.Errorf("%w: the setting %q is %.100q: %w", ErrDamaged, ArchiveSetting, value, err)
	}
	if a.Below%TileHashes != 0 {
		return a, fmt.Errorf("%w: the setting %q names %d entries, which are no whole tiles", ErrDamaged, ArchiveSetting, a.Below)
	}
	return a, nil
}

// ReadArchived says which entries a store may have given up.
func ReadArchived(ctx context.Context, log Reader) (Archived, error) {
	value, err := log.Setting(ctx, ArchiveSetting)
	if errors.Is(err, ErrNotFound) {
		return Archived{}, nil
	}
	if err != nil {
		return Archived{}, err
	}
	return ParseArchived(value)
}

// Text returns the value of ArchiveSetting.
func (a Archived) Text() []byte {
	text, _ := json.Marshal(a) // cannot fail
	return text
}

// Follows returns an error unless a can follow what was archived before, in a ledger with size
// entries. The last entry stays in the store.
func (a Archived) Follows(before Archived, size uint64) error {
	switch {
	case a.Below%TileHashes != 0:
		return fmt.Errorf("%d entries are no whole tiles", a.Below)
	case a.Below >= size:
		return fmt.Errorf("%d entries cannot leave a ledger of %d", a.Below, size)
	case a.Below < before.Below:
		return fmt.Errorf("%w: %d entries have left the store, %d are fewer", ErrConflict, before.Below, a.Below)
	}
	return nil
}

// Has reports whether an entry may be missing in the store.
func (a Archived) Has(seq uint64) bool { return seq < a.Below }

// HasTile reports whether a tile may be missing in the store.
func (a Archived) HasTile(level uint8, index uint64) bool {
	return level == 0 && index < a.Below/TileHashes
}

// ArchivedError: what was asked for is not in the store, but in a copy of the log.
type ArchivedError struct{ Archived }

// Error says what happened, and what to do.
func (e *ArchivedError) Error() string {
	return fmt.Sprintf("the entries below %d are not in the database, but in the published copy at %s: give --archive and --publish with that URL", e.Below, e.Place)
}

// Archiver is a Store that can give up old entries. Its methods Entry, Entries, and Tile return an
// ArchivedError for what was given up.
type Archiver interface {
	Store
	// Archive deletes the entries below a.Below, except for those in keep, and the tiles of level
	// 0 over them, and stores a, all atomically and durably. The caller has verified that the copy
	// has them. If Archive returns an error, either all was done or nothing. It does not delay
	// commits. It returns ErrConflict if more was archived before.
	Archive(ctx context.Context, a Archived, keep []uint64) error
}
