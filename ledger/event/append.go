package event

import (
	"bytes"
	"encoding/hex"
	"strconv"

	"colophon/ledger/record"
	"colophon/ledger/record/fields"
	"colophon/ledger/record/pyjson"
)

// Body holds all members of an event body. It can be reused for one event after another. Its
// contents are valid until the next Decode.
type Body struct {
	Event
	Common fields.CommonFields // members of "record" that events of any kind can have
	Checks []record.NamedCheck // checks in the order of the body
	// Fields points to the field below for the event's kind. It is nil if the kind is unknown.
	Fields          fields.Fields
	IPC             IPC // fields of an ipc_record event
	DAG             DAG // fields of a run_dag event
	CitationSet     CitationSet
	PathFingerprint PathFingerprint
	StateChange     StateChange
	PathValidation  PathValidation
	Note            Note
	Source          Source
	Redaction       Redaction
	KeyRotation     KeyRotation
	LedgerCreation  LedgerCreation
	Refusal         Refusal // fields of a record_refused event

	builder       pyjson.Builder
	actor, ledger string
	key           record.Hash
	written       []byte
}

// Decode reads a body without validation.
func (b *Body) Decode(body pyjson.Value) {
	b.Event = Event{}
	b.Event.read(body)
	b.readChecks()
	b.Common = fields.CommonFields{Contents: b.Common.Contents[:0]}
	e := &b.Event
	if e.Kind != record.KindIPCRecord { // most events are IPC records, so readIPC reads their common members in the same pass (BenchmarkExtend)
		for name, value := range e.Record.Members() {
			b.readCommon(name.Text(), value)
		}
	}
	switch e.Kind {
	case record.KindIPCRecord:
		b.IPC = IPC{}
		e.readIPC(&b.IPC, b)
		b.Fields = &b.IPC
	case record.KindRunDAG:
		b.DAG = e.DAG()
		b.Fields = &b.DAG
	case record.KindCitationSet:
		b.CitationSet = e.CitationSet()
		b.Fields = &b.CitationSet
	case record.KindPathFingerprint:
		b.PathFingerprint = e.PathFingerprint()
		b.Fields = &b.PathFingerprint.PathFingerprint
	case record.KindRecordStateChanged:
		b.StateChange = e.StateChange()
		b.Fields = &b.StateChange
	case record.KindPathValidated:
		b.PathValidation = e.PathValidation()
		b.Fields = &b.PathValidation
	case record.KindNote:
		b.Note = e.Note()
		b.Fields = &b.Note
	case record.KindSourceRegistered, record.KindSourceRevoked:
		b.Source = e.Source()
		b.Fields = &b.Source
	case record.KindContentRedacted:
		b.Redaction = e.Redaction()
		b.Fields = &b.Redaction
	case record.KindKeyRotated:
		b.KeyRotation = e.KeyRotation()
		b.Fields = &b.KeyRotation
	case record.KindLedgerCreated:
		b.LedgerCreation = e.LedgerCreation()
		b.Fields = &b.LedgerCreation
	case record.KindRecordRefused:
		b.Refusal = e.Refusal()
		b.Fields = &b.Refusal
	default:
		b.Fields = nil
	}
}

// readChecks reads the checks. It reuses the names of the previous event's checks, since most
// events have checks with the same names.
func (b *Body) readChecks() {
	before := b.Checks[:cap(b.Checks)]
	b.Checks = b.Checks[:0]
	for name, check := range b.Event.Checks.Members() {
		i := len(b.Checks)
		if i < len(before) && before[i].Name == string(name.Text()) {
			b.Checks = b.Checks[:i+1]
		} else {
			b.Checks = append(b.Checks, record.NamedCheck{Name: string(name.Text())})
		}
		b.Checks[i].EventCheck = readCheck(check)
	}
}

// readCommon reads a member that several kinds of records have in common.
func (b *Body) readCommon(name []byte, value pyjson.Value) {
	c := &b.Common
	switch string(name) {
	case "content":
		b.readContents(value)
	case "digest":
		c.Digest = digest(value)
	case "idempotency_key":
		b.key = digest(value)
		c.IdempotencyKeyDigest = &b.key
	case "labels":
		if value.Kind() == pyjson.Object {
			c.Labels = value
		}
	case "producer":
		c.Producer = fields.Producer{ID: text(value.Member("id")), Seq: raw(value.Member("seq"))}
	case "run_id":
		c.RunID = text(value)
	case "timestamp":
		c.Timestamp = text(value)
	}
}

// readContents reads the pieces of content that a record of the event's kind can have, and ignores
// all others.
func (b *Body) readContents(object pyjson.Value) {
	for name, named := range object.Members() {
		known, ok := contentName(b.Kind, name.Text())
		if !ok {
			continue
		}
		b.Common.Contents = append(b.Common.Contents, fields.Content{
			Name: known, Digest: text(named.Member("sha256")), Size: Uint64OrZero(named.Member("size")),
		})
	}
}

// The names of the content that each kind of record can have. The content of a citation set
// consists of the texts of its citations.
var (
	contentsOfIPC  = []string{"output", "payload", "system_prompt", "usage"}
	contentsOfRun  = []string{"answer_text", "dag", "evidence", "inputs", "messages", "policy", "question", "reject_inputs", "source_roots", "verifier_policy"}
	contentsOfPath = []string{"content"}
)

func contentName(kind record.Kind, name []byte) (string, bool) {
	var names []string
	switch kind {
	case record.KindIPCRecord:
		names = contentsOfIPC
	case record.KindRunDAG:
		names = contentsOfRun
	case record.KindPathFingerprint:
		names = contentsOfPath
	case record.KindCitationSet:
		number, isText := bytes.CutSuffix(name, []byte("/text"))
		number, isCitation := bytes.CutPrefix(number, []byte("citations/"))
		n, err := strconv.Atoi(string(number))
		return string(name), isText && isCitation && err == nil && n >= 0 && strconv.Itoa(n) == string(number)
	}
	for _, known := range names {
		if known == string(name) {
			return known, true
		}
	}
	return "", false
}

// readCheck reads the check of one hash.
func readCheck(v pyjson.Value) (c record.EventCheck) {
	for name, value := range v.Members() {
		switch string(name.Text()) {
		case "claimed":
			c.Claimed = text(value)
		case "computed":
			c.Computed = text(value)
		case "result":
			c.Result = resultOf(value.Text())
		}
	}
	return c
}

// resultOf converts the text of a result. It does not allocate if the result is known.
func resultOf(text []byte) record.CheckResult {
	for _, result := range [...]record.CheckResult{record.ResultComputed, record.ResultMatch, record.ResultClaimed, record.ResultMismatch, record.ResultInconsistent} {
		if string(text) == string(result) {
			return result
		}
	}
	return record.CheckResult(text)
}

// digest decodes a SHA-256 digest from hexadecimal. It returns the zero hash if v is anything else.
func digest(v pyjson.Value) (h record.Hash) {
	digits := text(v)
	if len(digits) != hex.EncodedLen(len(h)) {
		return record.Hash{}
	}
	if _, err := hex.Decode(h[:], digits); err != nil {
		return record.Hash{}
	}
	return h
}

// Encode returns the canonical encoding of the event that Decode has read. If the event was
// canonical and had no unknown members, the result is identical to the bytes that were read. Fields
// must not be nil. The result is valid until the next call to Encode.
func (b *Body) Encode() []byte {
	if string(b.Actor) != b.actor {
		b.actor = string(b.Actor)
	}
	if string(b.Ledger) != b.ledger {
		b.ledger = string(b.Ledger)
	}
	frame := record.EventContext{Actor: b.actor, Ledger: b.ledger}
	b.builder.Buf = b.written[:0]
	written := record.AppendDecodedBodyPrefix(&b.builder, b.Kind, frame, b.Checks, b.Fields, &b.Common)
	b.written = record.AppendBodySuffixWithTime(written, b.Seq, b.TimeText)
	return b.written
}

// Check returns an error if a field is missing or invalid (see fields.Fields).
func (b *Body) Check() error {
	if err := b.Common.Check(); err != nil {
		return err
	}
	return b.Fields.Check()
}

// CheckByName returns the check of the named hash, or nil if the event has no such check.
func (b *Body) CheckByName(name string) *record.EventCheck {
	for i := range b.Checks {
		if b.Checks[i].Name == name {
			return &b.Checks[i].EventCheck
		}
	}
	return nil
}

// HasContent reports whether the record refers to a piece of content with the given name.
func (b *Body) HasContent(name string) bool {
	for i := range b.Common.Contents {
		if b.Common.Contents[i].Name == name {
			return true
		}
	}
	return false
}
