package audit

import (
	"errors"
	"fmt"
	"strings"

	"colophon/proofs"
)

// DamageKind says in what way a log, or what is stored for it, is damaged.
type DamageKind string

// These are the kinds of damage.
const (
	DamageKindEntry      DamageKind = "entry"      // an entry differs from the entry that was signed
	DamageKindEvent      DamageKind = "event"      // a signed entry does not contain a valid event (spec: Event body)
	DamageKindCheck      DamageKind = "check"      // an event makes a false statement about its record
	DamageKindChain      DamageKind = "chain"      // an entry does not link to the previous one
	DamageKindTile       DamageKind = "tile"       // the hashes in a tile do not match the entries
	DamageKindRoot       DamageKind = "root"       // entries and tiles agree with each other, but not with the signed root
	DamageKindSignature  DamageKind = "signature"  // the checkpoint is not signed by the log's key
	DamageKindCheckpoint DamageKind = "checkpoint" // the checkpoint is malformed, is too old, or belongs to a different log
	DamageKindRollback   DamageKind = "rollback"   // the log is shorter than when it was last seen
	DamageKindFork       DamageKind = "fork"       // a part of the log that was seen before has changed
	DamageKindHead       DamageKind = "head"       // the stored head does not match the entries
	DamageKindContent    DamageKind = "content"    // content is missing, altered, or not erased
	DamageKindRedaction  DamageKind = "redaction"  // a stored redaction does not match the events
	DamageKindKey        DamageKind = "key"        // an idempotency key belongs to the wrong event, or to two events
	DamageKindTruncation DamageKind = "truncated"  // entries are missing
)

// Damage describes a fault in a log.
type Damage struct {
	Kind DamageKind
	// Seq identifies the damaged entry. For a tile, it is the first entry below the wrong hash. For
	// DamageKindTruncation, it is the first missing entry. For DamageKindFork, it is the first
	// entry that changed. For damage to the whole log (rollback, signature, checkpoint, root, and
	// head), it is the number of entries.
	Seq      uint64
	TilePath string // path of the tile (DamageKindTile), or of an entry bundle that cannot be read
	Name     string // name of the content (DamageKindContent), or of the check or member (DamageKindCheck)
	Message  string // explanation that states the values that were compared
}

// Error returns the kind, the position, and the message, on one line.
func (d *Damage) Error() string {
	return OneLine(fmt.Sprintf("%s: %s%s", d.Kind, d.position(), d.Message))
}

// OneLine escapes line breaks and tabs. Otherwise, text from a server could look like further lines of a
// report.
func OneLine(text string) string { return lineEscapes.Replace(text) }

var lineEscapes = strings.NewReplacer("\n", `\n`, "\r", `\r`, "\t", `\t`, "\v", `\v`, "\f", `\f`, "\u0085", `\u0085`, "\u2028", `\u2028`, "\u2029", `\u2029`)

// position returns the position of the damage followed by a colon. It returns "" for damage to the
// whole log if Seq is 0.
func (d *Damage) position() string {
	position := fmt.Sprintf("at entry %d: ", d.Seq)
	switch d.Kind {
	case DamageKindSignature, DamageKindCheckpoint, DamageKindRoot, DamageKindHead, DamageKindRollback:
		if d.Seq == 0 {
			return ""
		}
		position = fmt.Sprintf("at size %d: ", d.Seq)
	}
	if d.TilePath != "" {
		position = d.TilePath + ", " + position
	}
	if d.Name != "" {
		position = fmt.Sprintf("%q, %s", d.Name, position)
	}
	return position
}

// damaged returns a *Damage as an error.
func damaged(kind DamageKind, seq uint64, format string, args ...any) error {
	return &Damage{Kind: kind, Seq: seq, Message: fmt.Sprintf(format, args...)}
}

// checkDamaged returns a *Damage for a false statement that an event makes about its record.
func checkDamaged(seq uint64, name, format string, args ...any) error {
	return &Damage{Kind: DamageKindCheck, Seq: seq, Name: name, Message: fmt.Sprintf(format, args...)}
}

// tileDamaged returns a *Damage for a tile in which the first wrong hash is at slot.
func tileDamaged(path proofs.TilePath, slot uint64, format string, args ...any) error {
	return &Damage{Kind: DamageKindTile, Seq: firstBelow(path, slot), TilePath: path.String(), Message: fmt.Sprintf(format, args...)}
}

// firstBelow returns the seq of the first entry below the hash at the given slot of a tile.
func firstBelow(path proofs.TilePath, slot uint64) uint64 {
	return (path.Index*proofs.FullTileWidth + slot) << (uint(path.Level) * proofs.TileHeight)
}

// readDamage returns err if it means that the source is unavailable or if it already wraps a
// *Damage. Otherwise it returns damage.
func readDamage(err, damage error) error {
	var named *Damage
	if errors.Is(err, ErrUnavailable) || errors.As(err, &named) {
		return err
	}
	return damage
}

// onlyUnavailable returns err if it means that the source is unavailable, and nil otherwise.
func onlyUnavailable(err error) error {
	if errors.Is(err, ErrUnavailable) {
		return err
	}
	return nil
}
