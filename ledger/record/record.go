// Package record turns what a service posts into what the ledger keeps: it
// decodes a record strictly, recomputes every hash (spec: Hashes),
// checks each claim against it (spec: Checks), and serialises the event body up to the
// members that only the sequencer knows (spec: Event body).
//
// It does no I/O and reads no clock.
package record

import (
	"crypto/sha256"
	"math"
	"slices"
	"sync"

	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
)

// Kind names a kind of event (spec: Event body).
type Kind string

// The kinds that services post.
const (
	IPCRecord       Kind = "ipc_record"
	RunDAG          Kind = "run_dag"
	CitationSet     Kind = "citation_set"
	PathFingerprint Kind = "path_fingerprint"
)

// The kinds that the ledger writes itself.
const (
	LedgerCreated Kind = "ledger_created"
	RecordRefused Kind = "record_refused"
	KeyRotated    Kind = "key_rotated"
)

// The kinds of verbs, which change the state of something (spec: States; Path validation;
// Sources; Redactions).
const (
	RecordStateChanged Kind = "record_state_changed"
	PathValidated      Kind = "path_validated"
	SourceRegistered   Kind = "source_registered"
	SourceRevoked      Kind = "source_revoked"
	ContentRedacted    Kind = "content_redacted"
)

// Kinds lists the kinds that services post.
var Kinds = [...]Kind{IPCRecord, RunDAG, CitationSet, PathFingerprint}

// EventKinds lists the kinds of all events. The state files of audits name a kind by its index, so
// new kinds are added at the end.
var EventKinds = [...]Kind{
	LedgerCreated, IPCRecord, RunDAG, CitationSet, PathFingerprint, RecordRefused, RecordStateChanged,
	PathValidated, SourceRegistered, SourceRevoked, ContentRedacted, KeyRotated,
}

// Hash is a SHA-256 value.
type Hash = rules.Hash

// KeyedDigest tells records apart under one idempotency key (spec: Record digest; Idempotency):
// by kind and canonical digest.
func KeyedDigest(kind Kind, digest Hash) Hash {
	var room [64]byte // for every kind there is
	return sha256.Sum256(append(append(append(room[:0], kind...), 0), digest[:]...))
}

// Content is text or JSON that is kept beside the log, byte for byte (spec: Content).
type Content struct {
	Name   string
	Digest Hash
	Bytes  []byte
}

// Record is a decoded, hashed and checked record. It refers to the bytes it was
// parsed from: they must not change until Release.
type Record struct {
	Kind  Kind
	RunID string // empty when the record has none
	// Digest is the SHA-256 of the normalised record (docs/spec, "Record digest"). Two
	// records are the same if kind and digest agree.
	Digest   Hash
	Checks   []Check
	Contents []Content

	pointer string // where the record stands in the request
	implied string // a member that the normalised record leaves out; empty for none
	// checksJSON and hashesJSON are Checks and effective hashes as the event has them.
	checksJSON, hashesJSON []byte

	fields   hashFields
	common   CommonFields
	document *pyjson.Document
	decoder  decoder
	builder  pyjson.Builder
	ipc      ipc // an IPC record
	scratch  []byte
	body     []byte // of the event
	arena    []byte // holds what checks and hashes refer to, and both of them in JSON
}

var records = sync.Pool{New: func() any {
	return &Record{document: new(pyjson.Document)}
}}

// Limits bounds what goes into an event and is a server's choice.
type Limits struct {
	Labels     int // labels of a record
	LabelBytes int // bytes of a label's name, and of its value
	Values     int // JSON values and member names of a record
}

// DefaultLimits are those of a server that is not told otherwise.
func DefaultLimits() Limits { return Limits{Labels: 32, LabelBytes: 128, Values: 1_000_000} }

// NoLimits is for records that a server has taken already.
func NoLimits() Limits {
	return Limits{Labels: math.MaxInt, LabelBytes: math.MaxInt, Values: math.MaxInt}
}

// Parse decodes one record of a kind within the default limits. The error is an
// *Error.
func Parse(kind Kind, body []byte) (*Record, error) { return DefaultLimits().Parse(kind, body) }

// Parse decodes one record of a kind. The error is an *Error.
func (l Limits) Parse(kind Kind, body []byte) (*Record, error) {
	r := records.Get().(*Record)
	r.decoder.limits = l
	if err := r.document.ParseWithin(body, l.Values); err != nil {
		r.Release()
		return nil, syntaxError(err)
	}
	if err := r.decode(kind, r.document.Root(), ""); err != nil {
		r.Release()
		return nil, err
	}
	return r, nil
}

// Line is one line of a batch (spec: Requests).
type Line struct {
	Record *Record
	// Key is the line's idempotency_key; empty when it has none.
	Key string
}

// MaxKey bounds an idempotency key, in bytes.
const MaxKey = 1024

// ParseLine decodes a line within the default limits. The error is an *Error.
func ParseLine(line []byte) (Line, error) { return DefaultLimits().ParseLine(line) }

// ParseLine decodes `{"kind", "record", "idempotency_key"?}`. The error is an *Error.
func (l Limits) ParseLine(line []byte) (Line, error) {
	r := records.Get().(*Record)
	r.decoder.limits = l
	if err := r.document.ParseWithin(line, l.Values); err != nil {
		r.Release()
		return Line{}, syntaxError(err)
	}
	key, err := r.decodeLine()
	if err != nil {
		r.Release()
		return Line{}, err
	}
	return Line{Record: r, Key: key}, nil
}

func (r *Record) decodeLine() (string, error) {
	d := &r.decoder
	o := d.object(r.document.Root(), "", "kind", "record", "idempotency_key")
	kind := o.requiredText("kind", maxName)
	key := o.identifier("idempotency_key", MaxKey)
	o.requiredObject("record")
	if d.failed() {
		return "", d.err()
	}
	if err := r.decode(Kind(kind), o.member("record"), "/record"); err != nil {
		return "", err
	}
	return string(key), nil
}

// Release gives the record's memory back. Neither the record nor anything taken
// from it may be used afterwards.
func (r *Record) Release() {
	r.document.Reset()
	document, scratch, arena, body := r.document, r.scratch[:0], r.arena[:0], r.body[:0]
	clear(r.Contents) // they refer to the request
	checks, contents, named, w := r.Checks[:0], r.Contents[:0], r.common.Contents[:0], r.builder
	w.B = nil
	*r = Record{document: document}
	if cap(scratch)+cap(arena)+cap(body)+w.Scratch()+len(contents) <= maxPooled {
		r.scratch, r.arena, r.body, r.builder = scratch, arena, body, w
		r.Checks, r.Contents, r.common.Contents = checks, contents, named
	}
	records.Put(r)
}

// maxPooled bounds, in bytes, the buffers that a released record keeps.
const maxPooled = 1 << 20

// decode fills r from v; pointer is where v stands in the request.
func (r *Record) decode(kind Kind, v pyjson.Value, pointer string) error {
	d := &r.decoder
	r.Kind, r.pointer = kind, pointer
	if v.Kind() != pyjson.Object {
		d.invalid(pointer, "must be an object")
		return d.err()
	}
	switch kind {
	case IPCRecord:
		r.decodeIPC(d, v, pointer)
	case RunDAG:
		r.decodeRunDAG(d, v, pointer)
	case CitationSet:
		r.decodeCitations(d, v, pointer)
	case PathFingerprint:
		r.decodePath(d, v, pointer)
	default:
		d.invalid("/kind", "must be ipc_record, run_dag, citation_set or path_fingerprint")
	}
	if d.failed() {
		return d.err()
	}
	r.scratch = r.appendNormalised(slices.Grow(r.scratch[:0], len(v.Raw())), v, true)
	r.Digest = sha256.Sum256(r.scratch)
	r.serialise()
	return nil
}

// decodeCommon reads the members that every kind has.
func (r *Record) decodeCommon(o object) {
	c := &r.common
	c.RunID = o.identifier("run_id", maxName)
	r.RunID = string(c.RunID)
	c.Timestamp = o.timestamp("timestamp")
	c.Labels = o.labels("labels")
	c.Producer = o.producer(r, "producer")
}

// appendNormalised appends the normalised record, or an object in it whose members are
// the record's own.
func (r *Record) appendNormalised(dst []byte, v pyjson.Value, whole bool) []byte {
	dst = append(dst, '{')
	start := len(dst)
	for name, value := range v.Sorted() {
		text := name.Text()
		if !value.Given() || whole && string(text) == r.implied {
			continue
		}
		before := len(dst)
		if before > start {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, '"'), text...), '"', ':') // a known name: none needs escapes
		if !whole {
			dst = value.AppendCanonical(dst, pyjson.Compact)
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
			dst = value.AppendCanonical(dst, pyjson.Compact)
		}
	}
	return append(dst, '}')
}

// jsonHash is the JSON hash (spec: Text hash and JSON hash): compact canonical JSON in WTF-8.
func (r *Record) jsonHash(v pyjson.Value) Hash {
	var sum Hash
	sum, r.scratch = rules.JSONHash(slices.Grow(r.scratch[:0], len(v.Raw())), v)
	return sum
}

// addContent keeps bytes beside the log and returns their digest.
func (r *Record) addContent(name string, b []byte) Hash {
	digest := sha256.Sum256(b)
	r.Contents = append(r.Contents, Content{Name: name, Digest: digest, Bytes: b})
	return digest
}

// hex writes a hash in lower-case hexadecimal. The result lives as long as r.
func (r *Record) hex(h Hash) []byte {
	return r.keep(rules.AppendHex(r.scratch[:0], h))
}

// keep copies b into the arena.
func (r *Record) keep(b []byte) []byte {
	start := len(r.arena)
	r.arena = append(r.arena, b...)
	return r.arena[start:len(r.arena):len(r.arena)]
}
