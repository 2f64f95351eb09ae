// Package keycheck compares the keys of a database with its logs.
//
// The first pass counts the keys of each kind. The caller has already checked that everything that
// the logs name is stored, so a stray key makes a count too high. If a count is too high, a second
// pass reads the event of each key of that kind to find the stray key.
package keycheck

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	engine "github.com/cockroachdb/pebble/v2"

	"colophon/storage"
	"colophon/storage/pebble/internal/keys"
)

// Database is the database to check.
type Database struct {
	Engine *engine.DB
	// Get returns a copy of the value of a key, or storage.ErrNotFound.
	Get func(key []byte) ([]byte, error)
}

// Ledger is one ledger of the database.
type Ledger struct {
	Name       string
	Number     keys.LedgerNumber
	Head       storage.Head
	LogSummary *storage.LogSummary // nil if the ledger is not checked
	// RedactingSeq returns the seq of the event that redacted a record, or storage.ErrNotFound.
	RedactingSeq func(ctx context.Context, seq uint64) (uint64, error)
	// Location returns the location of a piece of content, or storage.ErrNotFound.
	Location func(digest storage.Hash) (keys.Location, error)
}

// Run returns the stray keys of a database that contains exactly the given ledgers. It returns at
// most one key for each ledger and one for the database itself. It calls progress, if not nil, with
// the number of keys read so far. Nothing may write to the database during the call.
func Run(ctx context.Context, db Database, ledgers []Ledger, progress func(keys uint64)) ([]*storage.StrayKeyError, error) {
	k := &check{ctx: ctx, db: db, ledgers: make(map[keys.LedgerNumber]*counts, len(ledgers)), progress: progress}
	for _, l := range ledgers {
		k.ledgers[l.Number] = &counts{Ledger: l}
	}
	if err := k.pass(nil, nil, k.key); err != nil {
		return nil, err
	}
	for _, l := range ledgers {
		counted := k.ledgers[l.Number]
		if l.LogSummary == nil || counted.stray {
			continue
		}
		if err := k.compare(counted); err != nil {
			return nil, err
		}
	}
	return k.strays, nil
}

// check holds the state of one call to Run.
type check struct {
	ctx      context.Context
	db       Database
	ledgers  map[keys.LedgerNumber]*counts
	progress func(keys uint64)
	read     uint64
	strays   []*storage.StrayKeyError // at most one for each ledger, and one for the database
	database bool                     // whether a stray key of the database was found
}

// counts holds the results of the first pass for one ledger.
type counts struct {
	Ledger
	stray   bool // whether a stray key was found
	holding *holding

	contents, locations, needs, claims uint64
}

// holding is the location of a piece of content whose references are being counted.
type holding struct {
	keys.LocationValue
	digest     storage.Hash
	references uint64
}

// progressKeys is the number of keys between two calls to progress.
const progressKeys = 1 << 16

// pass calls visit for the keys from start (included) to end (excluded) in order. A nil start or
// end means no bound. visit returns the key at which to continue, or nil to continue with the next
// key.
func (k *check) pass(start, end []byte, visit func(key keys.ParsedKey, raw []byte, value func() ([]byte, error)) (next []byte, err error)) (err error) {
	all, err := k.db.Engine.NewIter(&engine.IterOptions{LowerBound: start, UpperBound: end})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, all.Error(), all.Close()) }()
	for ok := all.First(); ok; {
		if k.read++; k.read%progressKeys == 0 {
			if k.ctx.Err() != nil {
				return k.ctx.Err()
			}
			if k.progress != nil {
				k.progress(k.read)
			}
		}
		next, err := visit(keys.Parse(all.Key()), all.Key(), all.ValueAndErr)
		if err != nil {
			return err
		}
		if next != nil {
			ok = all.SeekGE(next)
		} else {
			ok = all.Next()
		}
	}
	return nil
}

// found records a stray key, unless one has already been recorded for the same ledger. A nil l
// means the database itself.
func (k *check) found(l *counts, kind storage.StrayKind, seq uint64, format string, args ...any) {
	s := &storage.StrayKeyError{Kind: kind, Seq: seq, Message: fmt.Sprintf(format, args...)}
	switch {
	case l == nil && k.database || l != nil && l.stray:
		return
	case l == nil:
		k.database = true
	default:
		s.Ledger, l.stray = l.Name, true
	}
	k.strays = append(k.strays, s)
}

// key checks everything that can be checked by looking at a single key, and counts the key.
func (k *check) key(key keys.ParsedKey, raw []byte, value func() ([]byte, error)) (next []byte, err error) {
	switch key.Family {
	case keys.FamilyFormat, keys.FamilyLastLedger, keys.FamilyName: // already checked when the caller listed the ledgers
		return nil, nil
	}
	l := k.ledgers[key.Ledger]
	switch {
	case l == nil && key.Family == keys.FamilyUnknown:
		k.found(nil, storage.StrayOther, 0, "the kind of key %x is unknown to this version", raw[:min(len(raw), keys.MaxLengthWithoutName)])
		return nil, nil
	case l == nil:
		k.found(nil, storage.StrayOther, 0, "the key %x belongs to ledger number %d, which does not exist", raw[:min(len(raw), keys.MaxLengthWithoutName)], key.Ledger)
		return nil, nil
	case key.Family == keys.FamilyUnknown:
		k.found(l, storage.StrayOther, l.Head.Size, "the kind of key %x is unknown to this version", raw[:min(len(raw), keys.MaxLengthWithoutName)])
		return nil, nil
	case l.LogSummary == nil && key.Family != keys.FamilyErasure:
		return keys.LedgerUpperBound(raw, l.Number), nil
	case l.LogSummary == nil:
		return nil, nil
	}
	switch key.Family {
	case keys.FamilyInfo:
		err = k.description(l, value)
	case keys.FamilyEntry:
		if key.Seq >= l.Head.Size {
			k.found(l, storage.StrayEntry, key.Seq, "the entry is stored, but it is beyond the head (size %d)", l.Head.Size)
		}
	case keys.FamilyTile:
		k.tile(l, key)
	case keys.FamilyContent:
		l.contents++
	case keys.FamilyLocation, keys.FamilyReference:
		err = k.need(l, key, value)
	case keys.FamilyClaim:
		l.claims++
	case keys.FamilySetting:
		err = k.setting(l, key, value)
	case keys.FamilyErasure:
		err = k.erasure(l, key, value)
	}
	return nil, err
}

// tile checks that the head's tree includes the tile. The caller of Run has already checked the
// tile's hashes.
func (k *check) tile(l *counts, key keys.ParsedKey) {
	const height = 8 // log2 of storage.HashesPerTile
	if hashes := l.Head.Size >> min(uint(key.Level)*height, 64); key.Index > hashes>>height || key.Index<<height >= hashes {
		k.found(l, storage.StrayTile, l.Head.Size, "tile %d/%d is stored, but a tree of %d entries has no such tile", key.Level, key.Index, l.Head.Size)
	}
}

// need checks a location or a reference. Either one means that a record needs the content, so need
// counts the record. It does not count the event of a location that is marked as redacted, because
// that event is redacted and no longer needs the content.
func (k *check) need(l *counts, key keys.ParsedKey, value func() ([]byte, error)) error {
	stored, err := value()
	if err != nil {
		return err
	}
	if key.Family == keys.FamilyReference {
		switch {
		case l.holding == nil || l.holding.digest != key.Digest:
			k.found(l, storage.StrayContent, key.Seq, "a reference to content %x is stored, but the content is not", key.Digest)
		case key.Seq <= l.holding.Seq || len(stored) > 0:
			k.found(l, storage.StrayContent, key.Seq, "the event's reference to content %x is invalid", key.Digest)
		default:
			l.needs++
			l.holding.references++
		}
		return nil
	}
	decoded, err := keys.DecodeLocationValue(stored)
	if err != nil {
		k.found(l, storage.StrayContent, l.Head.Size, "cannot decode the location of content %x: %v", key.Digest, err)
		return nil
	}
	k.endHolding(l)
	l.holding = &holding{LocationValue: decoded, digest: key.Digest}
	l.locations++
	if !decoded.Redacted {
		l.needs++
		return nil
	}
	return k.checkRedacted(l, key.Digest, decoded)
}

// endHolding ends the count of references to l.holding. A location that is marked as redacted and
// has no references is stray, because no record needs its content.
func (k *check) endHolding(l *counts) {
	if h := l.holding; h != nil && h.Redacted && h.references == 0 {
		k.found(l, storage.StrayContent, h.Seq, "content %x is stored, but no record needs it", h.digest)
	}
	l.holding = nil
}

// checkRedacted checks a location that is marked as redacted. Its event must be redacted and must
// name the content.
func (k *check) checkRedacted(l *counts, digest storage.Hash, holding keys.LocationValue) error {
	posted, err := k.couldHavePosted(l, holding.Location, digest)
	if err != nil {
		return err
	}
	_, err = l.RedactingSeq(k.ctx, holding.Seq)
	switch {
	case !posted:
		k.found(l, storage.StrayContent, holding.Seq, "the recorded location of content %x (content number %d of the event) does not match the event", digest, holding.Slot)
	case errors.Is(err, storage.ErrNotFound):
		k.found(l, storage.StrayContent, holding.Seq, "content %x is recorded as withdrawn from the event, but the event is not redacted", digest)
	case err != nil:
		return err
	}
	return nil
}

// couldHavePosted reports whether the event at location.Seq names the content and has a slot with
// the number location.Slot.
func (k *check) couldHavePosted(l *counts, location keys.Location, digest storage.Hash) (bool, error) {
	e, err := k.event(l, location.Seq)
	return int(location.Slot) < len(e.ContentDigests) && slices.Contains(e.ContentDigests, digest), err
}

// event reads the summary of the event at seq. It returns an empty summary if seq is at or beyond
// the head.
func (k *check) event(l *counts, seq uint64) (storage.EventSummary, error) {
	if seq >= l.Head.Size {
		return storage.EventSummary{}, nil
	}
	return l.LogSummary.ReadEvent(k.ctx, seq)
}

// description checks that decoding and encoding the stored description of a ledger yields the same
// bytes, so that nothing else can be hidden in it.
func (k *check) description(l *counts, value func() ([]byte, error)) error {
	stored, err := value()
	if err != nil {
		return err
	}
	info, err := keys.DecodeInfo(stored)
	if err != nil {
		return err
	}
	written, err := keys.EncodeInfo(info)
	if err == nil && !bytes.Equal(stored, written) {
		k.found(l, storage.StrayOther, l.Head.Size, "the stored description of the ledger is not in canonical form")
	}
	return err
}

func (k *check) setting(l *counts, key keys.ParsedKey, value func() ([]byte, error)) error {
	stored, err := value()
	if err != nil {
		return err
	}
	if wrong := l.LogSummary.CheckSetting(key.Name, stored); wrong != nil {
		k.found(l, storage.StrayOther, l.Head.Size, "setting %.100q: %v", key.Name, wrong)
	}
	return nil
}

// erasure checks an erasure mark. Its event must name the marked content, have the marked slot, and
// be redacted. The slot must be empty. The mark's time must not be before the event or after the
// head.
func (k *check) erasure(l *counts, key keys.ParsedKey, value func() ([]byte, error)) error {
	stored, err := value()
	if err != nil {
		return err
	}
	erased, err := keys.DecodeErasure(stored)
	if err != nil {
		k.found(l, storage.StrayContent, key.Location.Seq, "cannot decode an erasure mark of the event: %v", err)
		return nil
	}
	e, err := k.event(l, key.Location.Seq)
	if err != nil {
		return err
	}
	_, redaction := l.RedactingSeq(k.ctx, key.Location.Seq)
	_, content := k.db.Get(keys.AppendContentKey(nil, l.Number, key.Location))
	switch {
	case int(key.Location.Slot) >= len(e.ContentDigests) || !slices.Contains(e.ContentDigests, erased.Digest):
		k.found(l, storage.StrayContent, key.Location.Seq, "an erasure mark says that content %x of the event is being erased, but the event does not name that content", erased.Digest)
	case errors.Is(redaction, storage.ErrNotFound):
		k.found(l, storage.StrayContent, key.Location.Seq, "an erasure mark says that content %x of the event is being erased, but the event is not redacted", erased.Digest)
	case redaction != nil:
		return redaction
	case content == nil:
		k.found(l, storage.StrayContent, key.Location.Seq, "an erasure mark says that content %x of the event is being erased, but the content is still stored", erased.Digest)
	case !errors.Is(content, storage.ErrNotFound):
		return content
	case erased.TimeMicros < e.TimeMicros || erased.TimeMicros > l.Head.TimeMicros:
		k.found(l, storage.StrayContent, key.Location.Seq, "an erasure mark says that content %x of the event was erased before the time of the event or after the time of the head", erased.Digest)
	}
	return nil
}
