package audit

import (
	"errors"
	"fmt"

	"colophon/proofs"
)

// Kind is a kind of damage.
type Kind string

// The kinds of damage.
const (
	KindEntry      Kind = "entry"      // an entry is not the one that was signed
	KindEvent      Kind = "event"      // what was signed is not a valid event (spec: Event body)
	KindCheck      Kind = "check"      // what an event states about its record is wrong
	KindChain      Kind = "chain"      // an entry does not link to the one before it
	KindTile       Kind = "tile"       // a hash tile does not have the hashes of the entries
	KindRoot       Kind = "root"       // entries and tiles agree, but not with the signed root
	KindSignature  Kind = "signature"  // the checkpoint is not signed by the log's key
	KindCheckpoint Kind = "checkpoint" // the checkpoint is malformed, too old, or of another log
	KindRollback   Kind = "rollback"   // the log is shorter than it was
	KindFork       Kind = "fork"       // the log is not the one seen before
	KindHead       Kind = "head"       // the stored head is not the head of the entries
	KindContent    Kind = "content"    // content is missing, altered, or not erased
	KindRedaction  Kind = "redaction"  // a redaction is not the one in the events
	KindKey        Kind = "key"        // an idempotency key leads to another event, or to two
	KindTruncated  Kind = "truncated"  // entries are missing
)

// Damage is one thing that is wrong with a log.
type Damage struct {
	Kind Kind
	// Seq is the damaged entry: for a tile the first entry below the wrong hash, for
	// KindTruncated the first missing entry, for KindFork the first changed entry. For damage of
	// all entries (KindRollback, signature, checkpoint, root, and head) it is their number.
	Seq     uint64
	Tile    string // path of the tile, for KindTile, or of an entry bundle that cannot be read
	Name    string // of the content, for KindContent; of the check or member, for KindCheck
	Message string // what was compared with what
}

// Error returns kind, position, and message.
func (d *Damage) Error() string {
	return fmt.Sprintf("%s: %s%s", d.Kind, d.position(), d.Message)
}

// position returns the position with a colon, or "" for a checkpoint of no size.
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

// damaged returns a damage as an error.
func damaged(kind Kind, seq uint64, format string, args ...any) error {
	return &Damage{Kind: kind, Seq: seq, Message: fmt.Sprintf(format, args...)}
}

// checkDamaged returns the damage of what an event says of its record.
func checkDamaged(seq uint64, name, format string, args ...any) error {
	return &Damage{Kind: KindCheck, Seq: seq, Name: name, Message: fmt.Sprintf(format, args...)}
}

// tileDamaged returns the damage of a tile; slot is the first wrong hash.
func tileDamaged(path proofs.TilePath, slot uint64, format string, args ...any) error {
	return &Damage{Kind: KindTile, Seq: firstBelow(path, slot), Tile: path.String(), Message: fmt.Sprintf(format, args...)}
}

// firstBelow returns the first entry below a hash of a tile.
func firstBelow(path proofs.TilePath, slot uint64) uint64 {
	return (path.Index*proofs.FullTile + slot) << (uint(path.Level) * proofs.TileHeight)
}

// readDamage returns the error of a failed read: err itself if the source is unavailable or names
// the damage, and damage otherwise.
func readDamage(err, damage error) error {
	var named *Damage
	if errors.Is(err, ErrUnavailable) || errors.As(err, &named) {
		return err
	}
	return damage
}

// onlyUnavailable returns the error of a source that is unavailable, and nil for any other.
func onlyUnavailable(err error) error {
	if errors.Is(err, ErrUnavailable) {
		return err
	}
	return nil
}
