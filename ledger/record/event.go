package record

import (
	"bytes"
	"crypto/sha256"
	"regexp"
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"

	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
)

// Rules is the version of the hash rules that the checks follow (spec: Versions).
const Rules = rules.Version

// EventVersion is the version of event bodies (spec: Event body).
const EventVersion = 1

// MaxEntry is the largest log entry in bytes (tlog-tiles): 32 bytes of chain
// link and the event body.
const MaxEntry = 65535

// TimeLayout is RFC 3339 in UTC with microseconds (spec: Event body).
const TimeLayout = "2006-01-02T15:04:05.000000Z"

// maxSuffix is the longest that AppendSuffix can be, in bytes.
const maxSuffix = len(`"seq":18446744073709551615,"time":"` + TimeLayout + `","v":1}`)

// Event is what the ledger knows of an event before the sequencer does.
type Event struct {
	Actor  string // name of the token that posted it, or "anonymous"
	Ledger string
	// Key is the digest of the idempotency key; nil when there is none.
	Key *Hash
}

// ledgerName matches the names of ledgers.
var ledgerName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,63}$`)

// IsLedgerName reports whether a ledger can have the name.
func IsLedgerName[T string | []byte](name T) bool { return ledgerName.MatchString(string(name)) }

// RunKey returns the digest of the idempotency key that a record without one has by its
// run_id (spec: Idempotency).
func RunKey[T string | []byte](kind Kind, runID T) Hash {
	var usual [256]byte
	b := append(append(append(usual[:0], "run_id\x00"...), kind...), 0)
	return sha256.Sum256(append(b, runID...))
}

// RotationKey returns the digest of the idempotency key of a log's n-th change of keys,
// counted from 1.
func RotationKey(n int) Hash {
	return sha256.Sum256(strconv.AppendInt([]byte(string(KeyRotated)+"\x00"), int64(n), 10))
}

// maxActor bounds an actor, in bytes: "oidc:", the name of an issuer of 64 bytes, a colon,
// and a claim of 255.
const maxActor = 5 + 64 + 1 + 255

// unseen are characters that no name has: a reader could not tell names with them apart.
// Characters that Unicode does not know yet are not among them: a later server may.
var unseen = []*unicode.RangeTable{unicode.Cc, unicode.Cf, unicode.Co, unicode.Zl, unicode.Zp}

// IsActor reports whether a text can be the actor of an event. It allows every name that a
// server gives to a token, a certificate, or the subject of an OpenID Connect issuer.
func IsActor(name []byte) bool {
	odd := func(r rune) bool {
		return r == utf8.RuneError || unicode.In(r, unseen...) || unicode.Is(unicode.Zs, r) && r != ' '
	}
	return len(name) > 0 && len(name) <= maxActor && !bytes.ContainsFunc(name, odd) && len(bytes.TrimSpace(name)) == len(name)
}

// AppendBody appends the event body up to the members that the sequencer fills
// in (spec: Event body): `{"actor":…,"rules":1,`. AppendSuffix completes it.
func (r *Record) AppendBody(dst []byte, e Event) []byte {
	return appendEvent(r.writer(dst), r.Kind, e, r.checksMember, func(w *pyjson.Builder) { r.appendMembers(w, e.Key) })
}

// Body is what AppendBody appends, in memory of r: it lives as long as r.
func (r *Record) Body(e Event) []byte {
	r.body = r.AppendBody(r.body[:0], e)
	return r.body
}

// writer is r's own builder, which keeps its memory from one use to the next.
func (r *Record) writer(dst []byte) *pyjson.Builder {
	r.builder.B = dst
	return &r.builder
}

// appendEvent writes the members that every event has around the record, which is what members writes.
func appendEvent(w *pyjson.Builder, kind Kind, e Event, checks, members func(*pyjson.Builder)) []byte {
	w.OpenOrdered()
	w.Text("actor", []byte(e.Actor))
	checks(w)
	w.Text("kind", []byte(kind))
	w.Text("ledger", []byte(e.Ledger))
	w.Name("record")
	members(w)
	w.Integer("rules", Rules)
	w.Close()
	w.B[len(w.B)-1] = ','
	return w.B
}

// noChecks is for events that are not about a record's claims.
func noChecks(w *pyjson.Builder) { w.Raw("checks", []byte("{}")) }

// AppendSuffix completes an event body.
func AppendSuffix(dst []byte, seq uint64, at time.Time) []byte {
	return AppendSuffixAt(dst, seq, at.UTC().Format(TimeLayout))
}

// AppendSuffixAt is AppendSuffix for a time that is written as TimeLayout says.
func AppendSuffixAt[T string | []byte](dst []byte, seq uint64, at T) []byte {
	dst = append(dst, `"seq":`...)
	dst = strconv.AppendUint(dst, seq, 10)
	dst = append(dst, `,"time":"`...)
	dst = append(dst, at...)
	return append(dst, `","v":1}`...)
}

// CheckSize refuses a body, as AppendBody made it, that cannot become an entry
// of at most MaxEntry bytes. The error is an *Error.
func CheckSize(body []byte) error { return checkSize(body, "", "split it into several records") }

func checkSize(body []byte, pointer, advice string) error {
	size := len(Hash{}) + len(body) + maxSuffix
	if size <= MaxEntry {
		return nil
	}
	d := new(decoder)
	d.invalid(pointer, "makes a log entry of %d bytes, at most %d are allowed; %s", size, MaxEntry, advice)
	return d.err()
}

// appendMembers writes the event's record object.
func (r *Record) appendMembers(w *pyjson.Builder, key *Hash) {
	r.common.Key = key
	r.fields.append(w, &r.common)
}

// serialise writes what the event and its receipt have in common, once for both.
func (r *Record) serialise() {
	w := r.writer(r.arena)
	start := len(w.B)
	w.Open()
	for _, c := range r.Checks {
		w.Name(c.Field)
		c.append(w)
	}
	w.Close()
	middle := len(w.B)
	w.OpenOrdered()
	r.fields.appendHashes(w)
	w.Close()
	r.arena = w.B
	r.checksJSON, r.hashesJSON = w.B[start:middle:middle], w.B[middle:len(w.B):len(w.B)]
	c := &r.common
	c.Digest, c.hashes, c.Contents = r.Digest, r.hashesJSON, c.Contents[:0]
	for _, content := range r.Contents {
		c.Contents = append(c.Contents, ContentField{content.Name, r.hex(content.Digest), uint64(len(content.Bytes))})
	}
}

// ChecksJSON is the checks as a canonical JSON object, by field: what the event and
// its receipt have. It lives as long as r.
func (r *Record) ChecksJSON() []byte { return r.checksJSON }

// HashesJSON is the effective hashes likewise.
func (r *Record) HashesJSON() []byte { return r.hashesJSON }

func (r *Record) checksMember(w *pyjson.Builder) { w.Raw("checks", r.checksJSON) }

func (c *Check) append(w *pyjson.Builder) {
	field := CheckField{c.Result, c.Claimed, c.Computed}
	field.append(w)
}

// AppendLedgerCreated appends the body of a ledger's first event.
func AppendLedgerCreated(dst []byte, e Event, origin, verifierKey string) []byte {
	return appendEvent(&pyjson.Builder{B: dst}, LedgerCreated, e, noChecks, func(w *pyjson.Builder) {
		created := CreatedFields{[]byte(origin), []byte(verifierKey)}
		created.append(w, nil)
	})
}

// Refusal is why the ledger did not take a record that it could read (spec: Refusals;
// Idempotency).
type Refusal string

// The reasons.
const (
	RefusedMismatch Refusal = "mismatch" // a claim failed and the writer wanted that refused
	RefusedKey      Refusal = "idempotency_key_conflict"
)

// maxRefusedBytes bounds the failed checks that a refusal lists, so that it always
// fits an entry; their number is given in full.
const maxRefusedBytes = 32 << 10

// AppendRefusal appends the body of the event that logs a refusal: the record's
// digest and the failed checks. first is the event that holds
// the idempotency key; it is written for RefusedKey only.
func (r *Record) AppendRefusal(dst []byte, e Event, why Refusal, first uint64) []byte {
	mismatches := r.Mismatches()
	checks := func(w *pyjson.Builder) {
		w.Name("checks")
		w.Open()
		for _, c := range mismatches {
			if len(w.B) > maxRefusedBytes {
				break
			}
			w.Name(c.Field)
			c.append(w)
		}
		w.Close()
	}
	refused := RefusalFields{Kind: r.Kind, Reason: why, Mismatches: uint64(len(mismatches)), FirstSeq: first}
	common := CommonFields{Digest: r.Digest, Key: e.Key, RunID: r.common.RunID}
	return appendEvent(&pyjson.Builder{B: dst}, RecordRefused, e, checks, func(w *pyjson.Builder) { refused.append(w, &common) })
}

// eventText is text that is hashed as WTF-8 but may enter an event only when it
// is valid UTF-8 and short; nil otherwise. Its content keeps it as it came.
func eventText(text []byte) []byte {
	if len(text) > maxName || pyjson.HasLoneSurrogate(text) {
		return nil
	}
	return text
}

// AppendComputed appends what the ledger would record, without recording it:
// {"checks", "hashes", "kind", "record"}.
func (r *Record) AppendComputed(dst []byte) []byte {
	w := r.writer(dst)
	w.OpenOrdered()
	r.checksMember(w)
	w.Raw("hashes", r.hashesJSON)
	w.Text("kind", []byte(r.Kind))
	w.Name("record")
	r.appendMembers(w, nil)
	w.Close()
	return w.B
}
