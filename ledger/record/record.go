// Package record turns a record that a service posts into an event that the ledger stores. It
// decodes the record strictly, computes every hash (spec: Hashes), and compares each claim with the
// computed hash (spec: Checks). It then writes the event body up to the members that only the
// sequencer knows (spec: Event body).
//
// Each kind of record has a file that decodes its requests. Package fields defines the contents of
// the events.
//
// The package does no I/O and reads no clock.
package record

import (
	"crypto/sha256"
	"math"
	"slices"
	"sync"

	"colophon/ledger/record/fields"
	"colophon/ledger/record/members"
	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
	"colophon/ledger/record/strict"
)

// Hash is a SHA-256 value.
type Hash = rules.Hash

// Content is a text or a JSON value from a record. The ledger stores its exact bytes beside the log
// (spec: Content).
type Content struct {
	Name   string // name within the record, such as "output"
	Digest Hash   // SHA-256 of Bytes
	Bytes  []byte
}

// Record is a decoded and checked record. It refers to the bytes of the request body, which must
// not change until Release is called.
type Record struct {
	Kind  Kind
	RunID string // empty if the record has no run ID
	// Digest is the SHA-256 of the normalised record (spec: Record digest). Two records are
	// regarded as the same if their kinds and digests are equal.
	Digest   Hash
	Checks   []Check   // one for each hash or rule that was checked
	Contents []Content // texts and JSON values to store beside the log

	limits  Limits
	pointer string // JSON pointer to the record in the request body
	implied string // redundant member that the normalised record omits; "" if there is none
	// checksJSON and hashesJSON are the JSON encodings of Checks and of the effective hashes, as
	// they appear in the event.
	checksJSON, hashesJSON []byte

	fields   fields.FieldsWithHashes
	common   fields.CommonFields
	document *pyjson.Document
	decoder  strict.Decoder
	builder  pyjson.Builder
	ipc      ipc // the fields of an IPC record
	scratch  []byte
	members  []byte // backing memory of ipc.MemberDigests
	body     []byte // backing memory of the event's body
	arena    []byte // backing memory of the values in checks and hashes, and of checksJSON and hashesJSON
}

var records = sync.Pool{New: func() any {
	return &Record{document: new(pyjson.Document)}
}}

// Limits contains a server's limits on the contents of records and their events.
type Limits struct {
	MaxLabels     int // maximum number of labels on a record
	MaxLabelBytes int // maximum length of a label's name or value, in bytes
	MaxJSONValues int // maximum number of JSON values and member names in a record
	// PayloadMemberSecret is the payload-member secret of the ledger that receives the record. If
	// it is nil, the event contains no digests of payload members.
	PayloadMemberSecret *members.Secret
}

// WithPayloadMemberSecret returns a copy of l with the given PayloadMemberSecret, which may be nil.
func (l Limits) WithPayloadMemberSecret(secret *members.Secret) Limits {
	l.PayloadMemberSecret = secret
	return l
}

// DefaultLimits returns the limits of a server whose configuration does not set them.
func DefaultLimits() Limits {
	return Limits{MaxLabels: 32, MaxLabelBytes: 128, MaxJSONValues: 1_000_000}
}

// MaxValues is the highest Limits.MaxJSONValues that a server can have. Auditors refuse records with more values,
// because parsing a value of two bytes needs many more bytes.
const MaxValues = 2_000_000

// WidestLimits returns limits that allow everything that any server can accept, for records that a server has
// already accepted.
func WidestLimits() Limits {
	return Limits{MaxLabels: math.MaxInt, MaxLabelBytes: math.MaxInt, MaxJSONValues: MaxValues}
}

// Parse decodes a record of the given kind within the default limits. If the record is not valid,
// the error is a *strict.Error.
func Parse(kind Kind, body []byte) (*Record, error) { return DefaultLimits().ParseRecord(kind, body) }

// ParseRecord decodes a record of the given kind. The caller should call Release when it no longer
// needs the record. If the record is not valid, the error is a *strict.Error.
func (l Limits) ParseRecord(kind Kind, body []byte) (*Record, error) {
	r := records.Get().(*Record)
	r.limits = l
	if err := r.document.ParseLimited(body, l.MaxJSONValues); err != nil {
		r.Release()
		return nil, strict.NewSyntaxError(err)
	}
	if err := r.decode(kind, r.document.Root(), ""); err != nil {
		r.Release()
		return nil, err
	}
	return r, nil
}

// BatchLine is one line of a batch (spec: Requests).
type BatchLine struct {
	// Exactly one of Record, Action, and Validation is set.
	Record     *Record
	Action     *Action
	Validation *PathValidationLine // a path validation for which the path's latest record must still be looked up
	// Key is the line's idempotency key. It is empty if the line has no key.
	Key string
}

// MaxIdempotencyKeyBytes is the maximum length of an idempotency key in bytes.
const MaxIdempotencyKeyBytes = 1024

// ParseBatchLine decodes a line of a batch within the default limits. If the line is not valid, the
// error is a *strict.Error.
func ParseBatchLine(line []byte) (BatchLine, error) { return DefaultLimits().ParseBatchLine(line) }

// ParseBatchLine decodes one line of a batch, which has the form `{"kind", "record",
// "idempotency_key"?}`. The record of an action also names its target: record_seq or, for a path
// validation, project and path_id. If the line is not valid, the error is a *strict.Error.
func (l Limits) ParseBatchLine(line []byte) (BatchLine, error) {
	r := records.Get().(*Record)
	r.limits = l
	if err := r.document.ParseLimited(line, l.MaxJSONValues); err != nil {
		r.Release()
		return BatchLine{}, strict.NewSyntaxError(err)
	}
	actionKind, key, err := r.decodeLine()
	if err == nil && actionKind == "" {
		return BatchLine{Record: r, Key: key}, nil
	}
	r.Release()
	if err != nil {
		return BatchLine{}, err
	}
	if actionKind == KindPathValidated {
		v, err := parseValidationLine(line)
		return BatchLine{Validation: v, Key: key}, err
	}
	v, err := parseActionLine(actionKind, line)
	return BatchLine{Action: v, Key: key}, err
}

// decodeLine decodes the record and the idempotency key of a line. If the line's kind is the kind
// of an action, decodeLine returns that kind and does not decode the record.
func (r *Record) decodeLine() (actionKind Kind, key string, err error) {
	d := &r.decoder
	root := r.document.Root()
	switch {
	case root.Kind() == pyjson.Array:
		d.ReportMalformed("", `must be an object; write each record on a line of its own: {"kind": "ipc_record", "record": {…}}`)
		return "", "", d.Err()
	case root.Len() > 0 && root.Member("kind").Kind() == pyjson.Absent && root.Member("record").Kind() == pyjson.Absent && root.Member("format").Kind() == pyjson.Absent:
		d.ReportMalformed("", `has no member "kind"; write a record as {"kind": "ipc_record", "record": {…}}`)
		return "", "", d.Err()
	}
	o := d.Object(root, "", "kind", "record", "idempotency_key")
	kind := Kind(o.RequiredText("kind", maxName))
	key = string(o.Identifier("idempotency_key", MaxIdempotencyKeyBytes))
	o.RequiredObject("record")
	switch {
	case d.HasProblems():
		return "", "", d.Err()
	case slices.Contains(lineActionKinds[:], kind):
		return kind, key, nil
	}
	return "", key, r.decode(kind, o.Member("record"), "/record")
}

// Release returns the record's memory to a pool. After that, the record and everything that was
// obtained from it must not be used.
func (r *Record) Release() {
	r.document.Reset()
	document, scratch, arena, body, members := r.document, r.scratch[:0], r.arena[:0], r.body[:0], r.members[:0]
	clear(r.Contents) // contents alias the request
	checks, contents, named, w := r.Checks[:0], r.Contents[:0], r.common.Contents[:0], r.builder
	w.Buf = nil
	*r = Record{document: document}
	if cap(scratch)+cap(arena)+cap(body)+cap(members)+w.ScratchSize()+len(contents) <= maxPooled {
		r.scratch, r.arena, r.body, r.members, r.builder = scratch, arena, body, members, w
		r.Checks, r.Contents, r.common.Contents = checks, contents, named
	}
	records.Put(r)
}

// maxPooled is the maximum amount of memory, in bytes, that a released record keeps for reuse.
const maxPooled = 1 << 20

// decode fills r from v. pointer is the JSON pointer to v in the request body.
func (r *Record) decode(kind Kind, v pyjson.Value, pointer string) error {
	d := &r.decoder
	r.Kind, r.pointer = kind, pointer
	if v.Kind() != pyjson.Object {
		detail := "must be an object"
		if v.Kind() == pyjson.Array {
			detail += "; post several records to /batch, each on a line of its own"
		}
		d.ReportInvalid(pointer, "%s", detail)
		return d.Err()
	}
	switch kind {
	case KindIPCRecord:
		r.decodeIPC(d, v, pointer)
	case KindRunDAG:
		r.decodeRunDAG(d, v, pointer)
	case KindCitationSet:
		r.decodeCitations(d, v, pointer)
	case KindPathFingerprint:
		r.decodePath(d, v, pointer)
	default:
		d.ReportInvalid("/kind", "must be ipc_record, run_dag, citation_set, path_fingerprint, record_state_changed, path_validated, or note")
	}
	if d.HasProblems() {
		return d.Err()
	}
	r.scratch = r.appendNormalised(slices.Grow(r.scratch[:0], len(v.Raw())), v, true)
	r.Digest = sha256.Sum256(r.scratch)
	r.serialise()
	return nil
}

// decodeCommon decodes the members that records of every kind can have.
func (r *Record) decodeCommon(o strict.Object) {
	c := &r.common
	c.RunID = o.Identifier("run_id", maxName)
	r.RunID = string(c.RunID)
	c.Timestamp = readTimestamp(o, "timestamp")
	c.Labels = o.Labels("labels", r.limits.MaxLabels, r.limits.MaxLabelBytes)
	c.Producer = r.readProducer(o, "producer")
}

// appendNormalised appends the normalised form of v. whole is true if v is the whole record rather
// than an object inside it.
func (r *Record) appendNormalised(dst []byte, v pyjson.Value, whole bool) []byte {
	dst = append(dst, '{')
	start := len(dst)
	for name, value := range v.SortedMembers() {
		text := name.Text()
		if !value.IsGiven() || whole && string(text) == r.implied {
			continue
		}
		before := len(dst)
		if before > start {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, '"'), text...), '"', ':') // known member names need no escaping
		if !whole {
			quote := value.Kind() == pyjson.Integer && rules.IsVersionDimension(string(text)) // an integer version is written as its decimal text
			if quote {
				dst = append(dst, '"')
			}
			if dst = value.AppendCanonical(dst, pyjson.CompactForm); quote {
				dst = append(dst, '"')
			}
			continue
		}
		switch string(text) {
		case "temperature":
			dst = append(dst, r.ipc.Temperature...)
		case "environment", "cache_dimensions":
			if dst = r.appendNormalised(dst, value, false); dst[len(dst)-2] == '{' {
				dst = dst[:before]
			}
		case "citations":
			dst = append(dst, '[')
			for citation := range value.Elements() {
				if dst[len(dst)-1] != '[' {
					dst = append(dst, ',')
				}
				dst = r.appendNormalised(dst, citation, false)
			}
			dst = append(dst, ']')
		default:
			dst = value.AppendCanonical(dst, pyjson.CompactForm)
		}
	}
	return append(dst, '}')
}

// jsonHash returns the JSON hash of v, which covers v's compact canonical JSON in WTF-8 (spec: Text
// hash and JSON hash).
func (r *Record) jsonHash(v pyjson.Value) Hash {
	var sum Hash
	sum, r.scratch = rules.JSONHash(slices.Grow(r.scratch[:0], len(v.Raw())), v)
	return sum
}

// addContent adds a piece of content with the given name, and returns its digest.
func (r *Record) addContent(name string, b []byte) Hash {
	digest := sha256.Sum256(b)
	r.Contents = append(r.Contents, Content{Name: name, Digest: digest, Bytes: b})
	return digest
}

// hex returns h in lower-case hexadecimal digits. The result is valid until Release.
func (r *Record) hex(h Hash) []byte {
	return r.keep(rules.AppendHex(r.scratch[:0], h))
}

// keep returns a copy of b that is valid until Release.
func (r *Record) keep(b []byte) []byte {
	start := len(r.arena)
	r.arena = append(r.arena, b...)
	return r.arena[start:len(r.arena):len(r.arena)]
}
