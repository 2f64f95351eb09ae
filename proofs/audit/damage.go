package audit

import (
	"errors"
	"fmt"

	"colophon/proofs"
)

// Kind says what is damaged.
type Kind string

// The kinds of damage.
const (
	KindEntry      Kind = "entry"      // an entry is not what was signed, or no event as 2.2 has it
	KindChain      Kind = "chain"      // an entry does not link to the one before it
	KindTile       Kind = "tile"       // a hash tile is not that of the entries
	KindRoot       Kind = "root"       // entries and tiles agree, but not with the signed root
	KindSignature  Kind = "signature"  // the checkpoint is not signed by the log's key
	KindCheckpoint Kind = "checkpoint" // the checkpoint is malformed, of another log or too old
	KindHead       Kind = "head"       // the stored head is not that of the entries
	KindContent    Kind = "content"    // content is missing, altered, or should be erased
	KindRedaction  Kind = "redaction"  // what is stored of redactions is not what the events say
	KindKey        Kind = "key"        // an idempotency key leads elsewhere
	KindTruncated  Kind = "truncated"  // entries are missing
)

// Damage is one thing that is wrong, and where.
type Damage struct {
	Kind Kind
	// Seq is the entry that it is about: for a tile the first entry below the
	// hash that is wrong, for KindTruncated the first that is missing. Root,
	// signature, checkpoint and head are about all entries: then it is their
	// number.
	Seq  uint64
	Tile string // path of the tile, for KindTile
	Name string // name of the content, for KindContent
	// Message says what was compared with what.
	Message string
}

// Error is kind, position and message.
func (d *Damage) Error() string {
	position := fmt.Sprintf("at entry %d", d.Seq)
	switch d.Kind {
	case KindTile:
		position = d.Tile + ", " + position
	case KindContent:
		position = fmt.Sprintf("%q, %s", d.Name, position)
	}
	return fmt.Sprintf("%s: %s: %s", d.Kind, position, d.Message)
}

// damaged makes the error of a damage.
func damaged(kind Kind, seq uint64, format string, args ...any) error {
	return &Damage{Kind: kind, Seq: seq, Message: fmt.Sprintf(format, args...)}
}

// tileDamaged makes the error of a damaged tile; slot is the first bad hash.
func tileDamaged(path proofs.TilePath, slot uint64, format string, args ...any) error {
	return &Damage{Kind: KindTile, Seq: firstBelow(path, slot), Tile: path.String(), Message: fmt.Sprintf(format, args...)}
}

// firstBelow is the first entry below a hash of a tile.
func firstBelow(path proofs.TilePath, slot uint64) uint64 {
	return (path.Index*proofs.FullTile + slot) << (uint(path.Level) * proofs.TileHeight)
}

// unread turns a source's error into damage, unless it is none.
func unread(err, damage error) error {
	if errors.Is(err, ErrUnavailable) {
		return err
	}
	return damage
}
