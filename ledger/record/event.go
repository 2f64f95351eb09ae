package record

import (
	"bytes"
	"regexp"
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"

	"colophon/ledger/record/fields"
	"colophon/ledger/record/moment"
	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
	"colophon/ledger/record/strict"
)

// RulesVersion is the version of the hash rules that this build applies (spec: Versions).
const RulesVersion = rules.Version

// EventVersion is the version of the event bodies that this build writes (spec: Event body).
const EventVersion = 1

// maxSuffix is the maximum number of bytes that AppendBodySuffix appends.
const maxSuffix = len(`"seq":18446744073709551615,"time":"` + moment.Layout + `","v":1}`)

// EventContext holds the members of an event that come neither from its record nor from the sequencer.
type EventContext struct {
	Actor  string // name of the client that posted the record, or "anonymous"
	Ledger string // name of the ledger
	// IdempotencyKeyDigest is the digest of the idempotency key; nil if there is none.
	IdempotencyKeyDigest *Hash
}

var ledgerName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,63}$`)

// IsLedgerName reports whether name is a valid ledger name.
func IsLedgerName[T string | []byte](name T) bool { return ledgerName.MatchString(string(name)) }

// maxActor is the maximum length of an actor in bytes: "oidc:", the name of an issuer (up to 64
// bytes), a colon, and a claim (up to 255 bytes).
const maxActor = 5 + 64 + 1 + 255

// invisibleCharacters lists the classes of invisible characters that an actor must not contain. Unassigned code
// points are allowed, because later versions of Unicode may assign them.
var invisibleCharacters = []*unicode.RangeTable{unicode.Cc, unicode.Cf, unicode.Co, unicode.Zl, unicode.Zp}

// IsActorName reports whether name is well formed as an event's actor: 1 to maxActor bytes of valid
// UTF-8, without invisible characters, without spaces other than U+0020, and without spaces at
// either end. It does not check that a token, certificate, or subject of this name exists.
func IsActorName(name []byte) bool {
	isInvalid := func(r rune) bool {
		return r == utf8.RuneError || unicode.In(r, invisibleCharacters...) || unicode.Is(unicode.Zs, r) && r != ' '
	}
	return len(name) > 0 && len(name) <= maxActor && !bytes.ContainsFunc(name, isInvalid) && len(bytes.TrimSpace(name)) == len(name)
}

// AppendBodyPrefix appends an event body without the last members, which the sequencer adds (spec:
// Event body): `{"actor":…,"rules":1,`. AppendBodySuffix completes the body.
func (r *Record) AppendBodyPrefix(dst []byte, e EventContext) []byte {
	return appendEvent(r.writer(dst), r.Kind, e, r.checksMember, func(w *pyjson.Builder) { r.appendMembers(w, e.IdempotencyKeyDigest) })
}

// BodyPrefix returns the bytes that AppendBodyPrefix would append. They belong to r and are valid
// until the next call to BodyPrefix or Release.
func (r *Record) BodyPrefix(e EventContext) []byte {
	r.body = r.AppendBodyPrefix(r.body[:0], e)
	return r.body
}

// writer returns r's builder, set to append to dst. Reusing one builder avoids allocations.
func (r *Record) writer(dst []byte) *pyjson.Builder {
	r.builder.Buf = dst
	return &r.builder
}

// appendEvent writes an event body without the members that the sequencer adds. It calls checks to
// write the "checks" member, and members to write the record.
func appendEvent(w *pyjson.Builder, kind Kind, e EventContext, checks, members func(*pyjson.Builder)) []byte {
	w.BeginSortedObject()
	w.AddText("actor", []byte(e.Actor))
	checks(w)
	w.AddText("kind", []byte(kind))
	w.AddText("ledger", []byte(e.Ledger))
	w.BeginMember("record")
	members(w)
	w.AddInt("rules", RulesVersion)
	w.EndObject()
	w.Buf[len(w.Buf)-1] = ','
	return w.Buf
}

// noChecks writes the "checks" member of an event that has no checks.
func noChecks(w *pyjson.Builder) { w.AddRaw("checks", []byte("{}")) }

// AppendBodySuffix appends the members that complete an event body: "seq", "time", and "v".
func AppendBodySuffix(dst []byte, seq uint64, at time.Time) []byte {
	return AppendBodySuffixWithTime(dst, seq, at.UTC().Format(moment.Layout))
}

// AppendBodySuffixWithTime appends the members that complete an event body, like AppendBodySuffix,
// but takes a time that is already formatted with moment.Layout.
func AppendBodySuffixWithTime[T string | []byte](dst []byte, seq uint64, at T) []byte {
	dst = append(dst, `"seq":`...)
	dst = strconv.AppendUint(dst, seq, 10)
	dst = append(dst, `,"time":"`...)
	dst = append(dst, at...)
	return append(dst, `","v":1}`...)
}

// CheckEntrySize returns a *strict.Error if an entry with the given body (see AppendBodyPrefix)
// would be larger than fields.MaxEntryBytes bytes.
func CheckEntrySize(body []byte) error {
	return checkSize(body, "", "split the record into several smaller records")
}

func checkSize(body []byte, pointer, advice string) error {
	size := len(Hash{}) + len(body) + maxSuffix
	if size <= fields.MaxEntryBytes {
		return nil
	}
	d := new(strict.Decoder)
	d.ReportInvalid(pointer, "results in a log entry of %d bytes, but at most %d are allowed; %s", size, fields.MaxEntryBytes, advice)
	return d.Err()
}

// appendMembers writes the "record" member of the event. key is the digest of the idempotency key,
// or nil if there is none.
func (r *Record) appendMembers(w *pyjson.Builder, key *Hash) {
	r.common.IdempotencyKeyDigest = key
	r.fields.Append(w, &r.common)
}

// serialise encodes the checks and the effective hashes, which the event and its receipt both
// contain. It also copies the digest and the names of the content to r.common.
func (r *Record) serialise() {
	w := r.writer(r.arena)
	start := len(w.Buf)
	w.BeginObject()
	for _, c := range r.Checks {
		w.BeginMember(c.Field)
		c.append(w)
	}
	w.EndObject()
	middle := len(w.Buf)
	w.BeginSortedObject()
	r.fields.AppendHashes(w)
	w.EndObject()
	r.arena = w.Buf
	r.checksJSON, r.hashesJSON = w.Buf[start:middle:middle], w.Buf[middle:len(w.Buf):len(w.Buf)]
	c := &r.common
	c.Digest, c.Hashes, c.Contents = r.Digest, r.hashesJSON, c.Contents[:0]
	for _, content := range r.Contents {
		c.Contents = append(c.Contents, fields.Content{Name: content.Name, Digest: r.hex(content.Digest), Size: uint64(len(content.Bytes))})
	}
}

// ChecksJSON returns the checks as they appear in the event and in its receipt: a canonical JSON
// object with one member for each checked field. The bytes are valid until Release.
func (r *Record) ChecksJSON() []byte { return r.checksJSON }

// HashesJSON returns the effective hashes as they appear in the event and in its receipt. The bytes
// are valid until Release.
func (r *Record) HashesJSON() []byte { return r.hashesJSON }

func (r *Record) checksMember(w *pyjson.Builder) { w.AddRaw("checks", r.checksJSON) }

func (c *Check) append(w *pyjson.Builder) {
	field := EventCheck{c.Result, c.Claimed, c.Computed}
	field.append(w)
}

// eventText returns text if an event can contain it, that is, if it is valid UTF-8 and at most
// maxName bytes long. Otherwise, eventText returns nil. In both cases, the hashes cover the text in
// WTF-8, and the content keeps the text unchanged.
func eventText(text []byte) []byte {
	if len(text) > maxName || pyjson.HasLoneSurrogate(text) {
		return nil
	}
	return text
}

// AppendComputedJSON appends what the ledger would record, as a JSON object with the members
// checks, hashes, kind, and record.
func (r *Record) AppendComputedJSON(dst []byte) []byte {
	w := r.writer(dst)
	w.BeginSortedObject()
	r.checksMember(w)
	w.AddRaw("hashes", r.hashesJSON)
	w.AddText("kind", []byte(r.Kind))
	w.BeginMember("record")
	r.appendMembers(w, nil)
	w.EndObject()
	return w.Buf
}

// AppendDecodedBodyPrefix appends to w the body of an event that was decoded from the log, without
// the members that the sequencer adds. It returns w's bytes.
func AppendDecodedBodyPrefix(w *pyjson.Builder, kind Kind, e EventContext, checks []NamedCheck, f fields.Fields, c *fields.CommonFields) []byte {
	appendChecks := func(w *pyjson.Builder) {
		w.BeginMember("checks")
		w.BeginObject()
		for i := range checks {
			w.BeginMember(checks[i].Name)
			checks[i].append(w)
		}
		w.EndObject()
	}
	return appendEvent(w, kind, e, appendChecks, func(w *pyjson.Builder) { f.Append(w, c) })
}
