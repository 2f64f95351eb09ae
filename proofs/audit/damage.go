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
	KindEntry      Kind = "entry"      // an entry is not what was signed
	KindEvent      Kind = "event"      // what was signed is no event (spec: Event body)
	KindCheck      Kind = "check"      // an event says of its record what does not follow from it
	KindChain      Kind = "chain"      // an entry does not link to the one before it
	KindTile       Kind = "tile"       // a hash tile is not that of the entries
	KindRoot       Kind = "root"       // entries and tiles agree, but not with the signed root
	KindSignature  Kind = "signature"  // the checkpoint is not signed by the log's key
	KindCheckpoint Kind = "checkpoint" // the checkpoint is malformed, of another log or too old
	KindRollback   Kind = "rollback"   // the log is an earlier one than it was
	KindFork       Kind = "fork"       // the log is another one than it was
	KindHead       Kind = "head"       // the stored head is not that of the entries
	KindContent    Kind = "content"    // content is missing, altered, or should be erased
	KindRedaction  Kind = "redaction"  // what is known of redactions is not what the events say
	KindKey        Kind = "key"        // an idempotency key leads elsewhere, or to two events
	KindTruncated  Kind = "truncated"  // entries are missing
)

// Damage is one thing that is wrong, and where.
type Damage struct {
	Kind Kind
	// Seq is the entry that it is about: for a tile the first entry below the
	// hash that is wrong, for KindTruncated the first that is missing, for KindFork
	// the first that is another one than it was, for KindRollback the first that there was and is
	// not. Root, signature, checkpoint and head are about all entries: then it is their
	// number.
	Seq  uint64
	Tile string // path of the tile, for KindTile; of an entry bundle that cannot be read
	Name string // name of the content, for KindContent; of the check, for KindCheck
	// Message says what was compared with what.
	Message string
}

// Error is kind, position and message.
func (d *Damage) Error() string {
	return fmt.Sprintf("%s: %s%s", d.Kind, d.position(), d.Message)
}

// position is where it is, with a colon; empty of a checkpoint that says no size.
func (d *Damage) position() string {
	position := fmt.Sprintf("at entry %d: ", d.Seq)
	switch d.Kind {
	case KindSignature, KindCheckpoint, KindRoot, KindHead, KindRollback:
		if d.Seq == 0 {
			return ""
		}
		position = fmt.Sprintf("at size %d: ", d.Seq)
	}
	if d.Tile != "" {
		position = d.Tile + ", " + position
	}
	if d.Name != "" {
		position = fmt.Sprintf("%q, %s", d.Name, position)
	}
	return position
}

// damaged makes the error of a damage.
func damaged(kind Kind, seq uint64, format string, args ...any) error {
	return &Damage{Kind: kind, Seq: seq, Message: fmt.Sprintf(format, args...)}
}

// checkDamaged makes the error of something that an event says of its record.
func checkDamaged(seq uint64, name, format string, args ...any) error {
	return &Damage{Kind: KindCheck, Seq: seq, Name: name, Message: fmt.Sprintf(format, args...)}
}

// tileDamaged makes the error of a damaged tile; slot is the first bad hash.
func tileDamaged(path proofs.TilePath, slot uint64, format string, args ...any) error {
	return &Damage{Kind: KindTile, Seq: firstBelow(path, slot), Tile: path.String(), Message: fmt.Sprintf(format, args...)}
}

// firstBelow is the first entry below a hash of a tile.
func firstBelow(path proofs.TilePath, slot uint64) uint64 {
	return (path.Index*proofs.FullTile + slot) << (uint(path.Level) * proofs.TileHeight)
}

// unread turns a source's error into damage, unless it is none. What the error itself
// says to be damaged comes first.
func unread(err, damage error) error {
	var named *Damage
	if errors.Is(err, ErrUnavailable) || errors.As(err, &named) {
		return err
	}
	return damage
}

// unavailable is the error of a source that cannot be asked, nil of any other.
func unavailable(err error) error {
	if errors.Is(err, ErrUnavailable) {
		return err
	}
	return nil
}
