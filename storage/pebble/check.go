package pebble

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

var _ storage.KeyChecker = (*Database)(nil)

// CheckKeys implements storage.KeyChecker. The first pass counts the keys of each kind. The
// walk of the log has seen that everything the log names is stored, so a stray makes a count
// too high. Only then does a second pass read the event of each key to find the stray.
func (d *Database) CheckKeys(ctx context.Context, logs map[string]storage.LogSummary, progress func(keys uint64)) ([]*storage.Stray, error) {
	if err := d.usable(ctx); err != nil {
		return nil, fmt.Errorf("checking keys: %w", err)
	}
	k := &keyCheck{ctx: ctx, db: d, ledgers: make(map[keys.Ledger]*ledgerCheck), progress: progress}
	if err := k.run(logs); err != nil {
		return nil, fmt.Errorf("checking keys: %w", damaged(err))
	}
	return k.strays, nil
}

// keyCheck is one check of all keys.
type keyCheck struct {
	ctx      context.Context
	db       *Database
	ledgers  map[keys.Ledger]*ledgerCheck
	progress func(keys uint64)
	read     uint64
	strays   []*storage.Stray // at most one per ledger, and one of the database
	database bool             // a stray of the database was found
}

// ledgerCheck holds the counts of one ledger during the pass.
type ledgerCheck struct {
	*ledger
	log     *storage.LogSummary // nil: the ledger is not checked
	head    storage.Head
	stray   bool // a stray was found
	holding *holdingCheck

	contents, places, needs, claims uint64
}

// holdingCheck is the place of a content whose references are being counted.
type holdingCheck struct {
	keys.Holding
	digest     storage.Hash
	references uint64
}

func (k *keyCheck) run(logs map[string]storage.LogSummary) error {
	infos, err := k.db.Ledgers(k.ctx)
	if err != nil {
		return err
	}
	for _, info := range infos {
		store, err := k.db.Ledger(k.ctx, info.Name)
		if err != nil {
			return err
		}
		l := &ledgerCheck{ledger: store.(*ledger)}
		l.head = *l.ledger.head.Load()
		if log, walked := logs[info.Name]; walked {
			l.log = &log
		}
		k.ledgers[l.number] = l
	}
	if err := k.pass(nil, nil, k.key); err != nil {
		return err
	}
	for _, info := range infos {
		l := k.ledgers[k.db.ledgers[info.Name].number]
		if l.log == nil || l.stray {
			continue
		}
		if err := k.compare(l); err != nil {
			return err
		}
	}
	return nil
}

// progressKeys is the number of keys between two calls of progress.
const progressKeys = 1 << 16

// pass visits keys in order. visit returns the key to continue at; nil means the next one.
func (k *keyCheck) pass(start, end []byte, visit func(key keys.Parsed, raw []byte, value func() ([]byte, error)) (next []byte, err error)) (err error) {
	all, err := k.db.engine.NewIter(&engine.IterOptions{LowerBound: start, UpperBound: end})
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

// found notes a stray, unless one of its ledger or of the database was noted before.
func (k *keyCheck) found(l *ledgerCheck, kind storage.StrayKind, seq uint64, format string, args ...any) {
	s := &storage.Stray{Kind: kind, Seq: seq, Message: fmt.Sprintf(format, args...)}
	switch {
	case l == nil && k.database || l != nil && l.stray:
		return
	case l == nil:
		k.database = true
	default:
		s.Ledger, l.stray = l.name(), true
	}
	k.strays = append(k.strays, s)
}

// key checks one key on its own, and counts it.
func (k *keyCheck) key(key keys.Parsed, raw []byte, value func() ([]byte, error)) (next []byte, err error) {
	switch key.Family {
	case keys.FormatKey, keys.LastKey, keys.NameKey: // checked when the ledgers were listed
		return nil, nil
	}
	l := k.ledgers[key.Ledger]
	switch {
	case l == nil && key.Family == keys.Unknown:
		k.found(nil, storage.StrayDatabase, 0, "the key %x is of no kind that this version knows", raw[:min(len(raw), keys.MaxLength)])
		return nil, nil
	case l == nil:
		k.found(nil, storage.StrayDatabase, 0, "the key %x is of a ledger with the number %d, which there is not", raw[:min(len(raw), keys.MaxLength)], key.Ledger)
		return nil, nil
	case key.Family == keys.Unknown:
		k.found(l, storage.StrayDatabase, l.head.Size, "the key %x is of no kind that this version knows", raw[:min(len(raw), keys.MaxLength)])
		return nil, nil
	case l.log == nil && key.Family != keys.ErasureKey:
		return keys.AfterLedger(raw, l.number), nil
	case l.log == nil:
		return nil, nil
	}
	switch key.Family {
	case keys.InfoKey:
		err = k.description(l, value)
	case keys.EntryKey:
		if key.Seq >= l.head.Size {
			k.found(l, storage.StrayEntry, key.Seq, "it is stored, but the head has %d entries", l.head.Size)
		}
	case keys.TileKey:
		k.tile(l, key)
	case keys.ContentKey:
		l.contents++
	case keys.PlaceKey, keys.ReferenceKey:
		err = k.need(l, key, value)
	case keys.ClaimKey:
		l.claims++
	case keys.SettingKey:
		err = k.setting(l, key, value)
	case keys.ErasureKey:
		err = k.erasure(l, key, value)
	}
	return nil, err
}

// tile checks that the tree of the head includes a tile. The walk has checked its hashes.
func (k *keyCheck) tile(l *ledgerCheck, key keys.Parsed) {
	const height = 8 // log2 of storage.TileHashes
	if hashes := l.head.Size >> min(uint(key.Level)*height, 64); key.Index > hashes>>height || key.Index<<height >= hashes {
		k.found(l, storage.StrayTile, l.head.Size, "tile %d/%d is stored, but a tree of %d entries has none there", key.Level, key.Index, l.head.Size)
	}
}

// need counts the records that need a content. The place of a redacted event proves nothing on
// its own; its references do.
func (k *keyCheck) need(l *ledgerCheck, key keys.Parsed, value func() ([]byte, error)) error {
	stored, err := value()
	if err != nil {
		return err
	}
	if key.Family == keys.ReferenceKey {
		switch {
		case l.holding == nil || l.holding.digest != key.Digest:
			k.found(l, storage.StrayContent, key.Seq, "content %x is said to be needed, and is not held", key.Digest)
		case key.Seq <= l.holding.Seq || len(stored) > 0:
			k.found(l, storage.StrayContent, key.Seq, "it is said to need the content %x in a way that no commit writes", key.Digest)
		default:
			l.needs++
			l.holding.references++
		}
		return nil
	}
	holding, err := keys.DecodeHolding(stored)
	if err != nil {
		k.found(l, storage.StrayContent, l.head.Size, "content %x: %v", key.Digest, err)
		return nil
	}
	k.endHolding(l)
	l.holding = &holdingCheck{Holding: holding, digest: key.Digest}
	l.places++
	if !holding.Withdrawn {
		l.needs++
		return nil
	}
	return k.withdrawn(l, key.Digest, holding)
}

// endHolding checks a place once all its references are counted.
func (k *keyCheck) endHolding(l *ledgerCheck) {
	if h := l.holding; h != nil && h.Withdrawn && h.references == 0 {
		k.found(l, storage.StrayContent, h.Seq, "content %x is held, and no record needs it", h.digest)
	}
	l.holding = nil
}

// withdrawn checks a place whose value says that its event is redacted.
func (k *keyCheck) withdrawn(l *ledgerCheck, digest storage.Hash, holding keys.Holding) error {
	brought, err := k.brought(l, holding.Place, digest)
	if err != nil {
		return err
	}
	_, err = l.redaction(k.ctx, holding.Seq)
	switch {
	case !brought:
		k.found(l, storage.StrayContent, holding.Seq, "content %x is said to be its content number %d, and is not", digest, holding.Slot)
	case errors.Is(err, storage.ErrNotFound):
		k.found(l, storage.StrayContent, holding.Seq, "content %x is said to be withdrawn from it, and it is not redacted", digest)
	case err != nil:
		return err
	}
	return nil
}

// brought reports whether the event at a place can have posted a content there.
func (k *keyCheck) brought(l *ledgerCheck, place keys.Place, digest storage.Hash) (bool, error) {
	e, err := k.event(l, place.Seq)
	return int(place.Slot) < len(e.Contents) && slices.Contains(e.Contents, digest), err
}

// event reads an event again; it is empty at or beyond the head.
func (k *keyCheck) event(l *ledgerCheck, seq uint64) (storage.EventSummary, error) {
	if seq >= l.head.Size {
		return storage.EventSummary{}, nil
	}
	return l.log.Event(k.ctx, seq)
}

// description checks that the stored description of a ledger is, byte for byte, the encoding
// of what it decodes to. So nothing else can be hidden in it.
func (k *keyCheck) description(l *ledgerCheck, value func() ([]byte, error)) error {
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
		k.found(l, storage.StrayDatabase, l.head.Size, "the ledger's description has more in it, or in another form, than is ever written")
	}
	return err
}

func (k *keyCheck) setting(l *ledgerCheck, key keys.Parsed, value func() ([]byte, error)) error {
	stored, err := value()
	if err != nil {
		return err
	}
	if wrong := l.log.Setting(key.Name, stored); wrong != nil {
		k.found(l, storage.StrayDatabase, l.head.Size, "setting %.100q: %v", key.Name, wrong)
	}
	return nil
}

// erasure checks a mark that erased content may still be in files: the content was at that
// place, its record is redacted, and the place is empty now.
func (k *keyCheck) erasure(l *ledgerCheck, key keys.Parsed, value func() ([]byte, error)) error {
	stored, err := value()
	if err != nil {
		return err
	}
	erased, err := keys.DecodeErasure(stored)
	if err != nil {
		k.found(l, storage.StrayContent, key.Place.Seq, "the note that its content is being erased: %v", err)
		return nil
	}
	e, err := k.event(l, key.Place.Seq)
	if err != nil {
		return err
	}
	_, redaction := l.redaction(k.ctx, key.Place.Seq)
	_, content := k.db.get(keys.AppendContent(nil, l.number, key.Place))
	switch {
	case int(key.Place.Slot) >= len(e.Contents) || !slices.Contains(e.Contents, erased.Digest):
		k.found(l, storage.StrayContent, key.Place.Seq, "a note says that its content %x is being erased, which it does not name", erased.Digest)
	case errors.Is(redaction, storage.ErrNotFound):
		k.found(l, storage.StrayContent, key.Place.Seq, "a note says that its content %x is being erased, but it is not redacted", erased.Digest)
	case redaction != nil:
		return redaction
	case content == nil:
		k.found(l, storage.StrayContent, key.Place.Seq, "a note says that its content %x is being erased, but it is there", erased.Digest)
	case !errors.Is(content, storage.ErrNotFound):
		return content
	case erased.Time < e.Time || erased.Time > l.head.Time:
		k.found(l, storage.StrayContent, key.Place.Seq, "a note says that its content %x was erased at a time at which it was not", erased.Digest)
	}
	return nil
}

// compare compares the counts of a ledger with its log, and searches for the stray if they
// differ.
func (k *keyCheck) compare(l *ledgerCheck) error {
	k.endHolding(l)
	type part struct {
		has, named uint64
		span       func(keys.Ledger) (start, end []byte)
		kind       storage.StrayKind
		find       func(*ledgerCheck, keys.Parsed, func() ([]byte, error)) error
	}
	for _, p := range []part{
		{l.needs, l.log.Needs, keys.Places, storage.StrayContent, k.strayNeed},
		{l.contents, l.places, keys.Contents, storage.StrayContent, k.strayContent},
		{l.claims, l.log.Claims, keys.Claims, storage.StrayClaim, k.strayClaim},
	} {
		if l.stray || p.has == p.named {
			continue
		}
		start, end := p.span(l.number)
		err := k.pass(start, end, func(key keys.Parsed, _ []byte, value func() ([]byte, error)) ([]byte, error) {
			if l.stray { // one stray is enough
				return end, nil
			}
			return nil, p.find(l, key, value)
		})
		if err != nil {
			return err
		}
		k.found(l, p.kind, l.head.Size, "%d are stored, the log accounts for %d", p.has, p.named) // ignored if a stray was found
	}
	return nil
}

// strayNeed finds a reference to a record that does not need the content.
func (k *keyCheck) strayNeed(l *ledgerCheck, key keys.Parsed, value func() ([]byte, error)) error {
	seq := key.Seq
	if key.Family == keys.PlaceKey {
		stored, err := value()
		if err != nil {
			return err
		}
		holding, err := keys.DecodeHolding(stored)
		if err != nil || holding.Withdrawn { // withdrawn has checked it
			return err
		}
		seq = holding.Seq
	}
	e, err := k.event(l, seq)
	if err != nil {
		return err
	}
	by, err := l.redaction(k.ctx, seq)
	switch {
	case seq >= l.head.Size:
		k.found(l, storage.StrayContent, seq, "content %x is kept for it, but the head has %d entries", key.Digest, l.head.Size)
	case !slices.Contains(e.Contents, key.Digest):
		k.found(l, storage.StrayContent, seq, "content %x is kept for it, which it does not name", key.Digest)
	case err == nil:
		k.found(l, storage.StrayContent, seq, "content %x is kept for it, which event %d has redacted", key.Digest, by)
	case !errors.Is(err, storage.ErrNotFound):
		return err
	}
	return nil
}

// strayContent finds bytes that no digest leads to, for example erased content that was put
// back.
func (k *keyCheck) strayContent(l *ledgerCheck, key keys.Parsed, _ func() ([]byte, error)) error {
	e, err := k.event(l, key.Place.Seq)
	if err != nil {
		return err
	}
	for _, digest := range e.Contents {
		place, err := l.place(digest)
		if err == nil && place == key.Place {
			return nil
		}
		if err != nil && !errors.Is(err, storage.ErrNotFound) {
			return err
		}
	}
	what := "no record needs them"
	if by, err := l.redaction(k.ctx, key.Place.Seq); err == nil {
		what = fmt.Sprintf("event %d has redacted it", by)
	}
	k.found(l, storage.StrayContent, key.Place.Seq, "bytes are stored as its content number %d, but %s", key.Place.Slot, what)
	return nil
}

// strayClaim finds the claim of an idempotency key that no event made.
func (k *keyCheck) strayClaim(l *ledgerCheck, key keys.Parsed, value func() ([]byte, error)) error {
	stored, err := value()
	if err != nil {
		return err
	}
	claim, err := keys.DecodeClaim(key.Digest, stored)
	if err != nil {
		k.found(l, storage.StrayClaim, l.head.Size, "key %x: %v", key.Digest, err)
		return nil
	}
	e, err := k.event(l, claim.Seq)
	if err != nil {
		return err
	}
	if e.Key == nil || *e.Key != key.Digest {
		k.found(l, storage.StrayClaim, claim.Seq, "key %x leads to it, and it does not claim the key: a record with this key would not be recorded", key.Digest)
	}
	return nil
}
