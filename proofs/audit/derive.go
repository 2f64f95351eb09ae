package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"colophon/ledger/record"
	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
	"colophon/ledger/record/strict"
	"colophon/proofs"
)

// Deriver recomputes records from what their events say and from their content, and
// compares what is made of them with the events. One goroutine uses it at a time.
type Deriver struct {
	// Derived counts records that came out as their events say. Confirmed counts those
	// of them which have the digest that the event says. Unknown counts the others, whose
	// cache key and digest could not be compared: both cover words that the event had to
	// leave out.
	Derived, Confirmed, Unknown uint64

	event, again pyjson.Document
	posted       []byte // scratch
}

// NewDeriver is a Deriver that has seen nothing yet.
func NewDeriver() *Deriver { return new(Deriver) }

// Check checks the event at seq, which a walk has found good. The error is a *Damage
// where the event is not what its record makes, or what content gives where it fails.
// An event that brings no record is passed over. What content gives has the digest
// that it is asked for.
func (d *Deriver) Check(seq uint64, body []byte, content func(name string, digest proofs.Hash) ([]byte, error)) error {
	if err := d.event.Parse(body); err != nil {
		return damaged(KindEvent, seq, "its body is not JSON: %v", err)
	}
	root := d.event.Root()
	p := &poster{kind: record.Kind(root.Member("kind").Text()), record: root.Member("record"), checks: root.Member("checks")}
	if !slices.Contains(record.Kinds[:], p.kind) {
		return nil
	}
	p.unknown = unknownWords(p.record)
	var err error
	if p.content, err = readContent(p.record.Member("content"), content); err != nil {
		return err
	}
	if d.posted, err = p.append(d.posted[:0]); err != nil {
		return checkDamaged(seq, "content", "it is no JSON where it must be: %v", err)
	}
	if err := d.compare(seq, root, p); err != nil {
		return err
	}
	d.Derived++
	if p.unknown {
		d.Unknown++
		return nil
	}
	return d.confirm(seq, p)
}

// unknownWords: the cache key covers words which are too long for the event, or no
// valid UTF-8, so they cannot be known. Versions alone are words; in place of a hash
// that is null there is no record.
func unknownWords(r pyjson.Value) bool {
	for _, name := range rules.Dimensions {
		if rules.IsVersion(name) && r.Member("cache_dimensions").Member(name).Kind() == pyjson.Null {
			return true
		}
	}
	return false
}

// readContent reads all pieces of content that a record names.
func readContent(named pyjson.Value, content func(string, proofs.Hash) ([]byte, error)) (map[string][]byte, error) {
	pieces := make(map[string][]byte, named.Len())
	for name, value := range named.Members() {
		digest, err := proofs.ParseHash(string(value.Member("sha256").Text()))
		if err != nil {
			return nil, err
		}
		piece, err := content(string(name.Text()), digest)
		if err != nil {
			return nil, err
		}
		pieces[string(name.Text())] = piece
	}
	return pieces, nil
}

// compare compares the event with that of the record which is posted again.
func (d *Deriver) compare(seq uint64, event pyjson.Value, p *poster) error {
	r, err := record.NoLimits().Parse(p.kind, escapeSurrogates(d.posted))
	if refused := (*strict.Error)(nil); errors.As(err, &refused) {
		return checkDamaged(seq, "", "what it says, with its content, makes no %s: %v", p.kind, err)
	}
	if err != nil {
		return err
	}
	defer r.Release()
	frame := record.Event{Actor: string(event.Member("actor").Text()), Ledger: string(event.Member("ledger").Text())}
	if key := p.record.Member("idempotency_key"); key.Given() {
		digest, err := proofs.ParseHash(string(key.Text()))
		if err != nil {
			return damaged(KindEvent, seq, "its idempotency key: %v", err)
		}
		frame.Key = &digest
	}
	at, err := time.Parse(record.TimeLayout, string(event.Member("time").Text()))
	if err != nil {
		return damaged(KindEvent, seq, "its time: %v", err)
	}
	if err := d.again.Parse(record.AppendSuffix(r.AppendBody(nil, frame), seq, at)); err != nil {
		return fmt.Errorf("event %d, made anew: %w", seq, err)
	}
	if p.unknown && !keyFits(event) {
		return checkDamaged(seq, "cache_key", "its check and its hash do not say the same")
	}
	if pointer, says, makes, found := Difference(event, d.again.Root(), p.otherwise); found {
		return checkDamaged(seq, pointer, "the event says %.200s, the record makes it %.200s", orNothing(says), orNothing(makes))
	}
	return nil
}

// Places in an event that are compared otherwise: the record's digest, the digests of
// content as it was posted, byte for byte, and the cache key where it is of unknown words.
const (
	digestPointer     = "/record/digest"
	contentPointer    = "/record/content/"
	cacheKeyPointer   = "/record/hashes/cache_key"
	cacheCheckPointer = "/checks/cache_key"
)

// otherwise reports whether what stands at a place is not compared: the digest, and the
// others if both have it.
func (p *poster) otherwise(pointer string, event, again pyjson.Value) bool {
	if pointer == digestPointer {
		return true
	}
	unknown := p.unknown && (pointer == cacheKeyPointer || pointer == cacheCheckPointer)
	return event.Kind() == again.Kind() && (unknown || strings.HasPrefix(pointer, contentPointer))
}

// keyFits reports whether the cache key of an event is one, and the one that the check
// of it says was computed.
func keyFits(event pyjson.Value) bool {
	key, check := event.Member("record").Member("hashes").Member("cache_key"), event.Member("checks").Member("cache_key")
	shown, claimed := check.Member("computed"), check.Member("claimed")
	switch record.Result(check.Member("result").Text()) {
	case record.Match, record.Computed:
		return rules.IsDigest(key.Text()) && check.Len() == 1
	case record.Mismatch:
		return rules.IsDigest(key.Text()) && check.Len() == 3 && bytes.Equal(shown.Raw(), key.Raw()) && rules.IsDigest(claimed.Text()) && !bytes.Equal(claimed.Raw(), key.Raw())
	}
	return false
}

func orNothing(v pyjson.Value) []byte {
	if v.Kind() == pyjson.Absent {
		return []byte("nothing")
	}
	return v.Raw()
}

// confirm compares the record's digest. If it differs, the event may lie about a claim:
// confirm looks for which.
func (d *Deriver) confirm(seq uint64, p *poster) error {
	if d.hasDigest(p) {
		d.Confirmed++
		return nil
	}
	digest := p.record.Member("digest").Text()
	for _, p.doubted = range doubtful(p) {
		var err error
		if d.posted, err = p.append(d.posted[:0]); err != nil {
			return err
		}
		if d.hasDigest(p) {
			result := record.Result(p.checks.Member(p.doubted).Member("result").Text())
			return checkDamaged(seq, p.doubted, "its result is %s; of the record that has the digest it would be %s", result, contrary(result))
		}
	}
	return checkDamaged(seq, "digest", "it is %s; no record that makes this event has it", digest)
}

// hasDigest reports whether the record that was written last has the digest of its event.
func (d *Deriver) hasDigest(p *poster) bool {
	sum := sha256.Sum256(d.posted)
	return hex.EncodeToString(sum[:]) == string(p.record.Member("digest").Text())
}

// doubtful are the checks, not too many, of claims that the event alone tells of, and that may be the
// contrary of what it says.
func doubtful(p *poster) []string {
	const most = 64
	var names []string
	for name, check := range p.checks.Members() {
		result := record.Result(check.Member("result").Text())
		told := p.kind != record.RunDAG || string(name.Text()) == "cache_key"
		if told && (result == record.Match || result == record.Computed) && len(names) < most {
			names = append(names, string(name.Text()))
		}
	}
	return names
}
