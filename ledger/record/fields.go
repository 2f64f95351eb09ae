package record

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"strconv"

	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
)

// Fields is what the record of an event has that only its kind has. There is one type for
// each kind: it is filled by what decodes a request and by what reads an event (package
// event), and writes the event in both cases.
type Fields interface {
	// Check reports what no event of the kind can say: a member that is missing, too long,
	// or of the wrong form. What has a wrong type is not in the fields.
	Check() error
	append(w *pyjson.Builder, c *CommonFields)
}

// hashFields are fields that have effective hashes (spec: Effective hashes).
type hashFields interface {
	Fields
	appendHashes(w *pyjson.Builder) // in their order
}

// CommonFields is what the record of an event has that the records of other kinds have too.
type CommonFields struct {
	Contents []ContentField
	Digest   Hash
	Key      *Hash        // digest of the idempotency key; nil when there is none
	Labels   pyjson.Value // Absent when there are none
	Producer Producer
	RunID    []byte // nil when there is none, as is Timestamp
	// Timestamp is as it was sent, RFC 3339.
	Timestamp []byte

	hashes []byte // those of the fields in canonical JSON, if they were written before
}

// ContentField names a piece of content (spec: Content).
type ContentField struct {
	Name   string
	Digest []byte // SHA-256 of its bytes, in hexadecimal digits
	Size   uint64 // in bytes
}

func (c *CommonFields) appendContents(w *pyjson.Builder) {
	if len(c.Contents) > 0 {
		w.Name("content")
		w.Open()
		for i := range c.Contents {
			named := &c.Contents[i]
			w.Name(named.Name)
			w.B = append(append(w.B, `{"sha256":"`...), named.Digest...)
			w.B = append(strconv.AppendUint(append(w.B, `","size":`...), named.Size, 10), '}')
		}
		w.Close()
	}
}

// appendIdentity writes the digest of the record, and that of its idempotency key.
func (c *CommonFields) appendIdentity(w *pyjson.Builder) {
	w.Digest("digest", c.Digest)
	c.appendKey(w)
}

func (c *CommonFields) appendKey(w *pyjson.Builder) {
	if c.Key != nil {
		w.Digest("idempotency_key", *c.Key)
	}
}

func (c *CommonFields) appendHashes(w *pyjson.Builder, f hashFields) {
	w.Name("hashes")
	if c.hashes != nil {
		w.B = append(w.B, c.hashes...)
		return
	}
	w.OpenOrdered()
	f.appendHashes(w)
	w.Close()
}

// CheckField is the check of one hash as an event has it (spec: Checks). Claimed and Computed
// are nil where they are not shown, or null.
type CheckField struct {
	Result            Result
	Claimed, Computed []byte
}

func (c *CheckField) append(w *pyjson.Builder) {
	if c.Result != Mismatch && c.Claimed == nil { // most are like that
		w.B = pyjson.AppendString(append(w.B, `{"result":`...), []byte(c.Result))
		w.B = append(w.B, '}')
		return
	}
	w.OpenOrdered()
	if c.Result == Mismatch {
		w.Nullable("claimed", c.Claimed)
		w.Nullable("computed", c.Computed)
	} else {
		w.Text("claimed", c.Claimed)
	}
	w.Text("result", []byte(c.Result))
	w.Close()
}

// NamedCheck is a check and the hash that it is of.
type NamedCheck struct {
	Name string
	CheckField
}

// AppendFields appends an event body that was read, up to the members that AppendSuffixAt
// appends.
func AppendFields(w *pyjson.Builder, kind Kind, e Event, checks []NamedCheck, f Fields, c *CommonFields) []byte {
	appendChecks := func(w *pyjson.Builder) {
		w.Name("checks")
		w.Open()
		for i := range checks {
			w.Name(checks[i].Name)
			checks[i].append(w)
		}
		w.Close()
	}
	return appendEvent(w, kind, e, appendChecks, func(w *pyjson.Builder) { f.append(w, c) })
}

// Check reports what records of no kind can say.
func (c *CommonFields) Check() error {
	for i := range c.Contents {
		switch named := &c.Contents[i]; {
		case !rules.IsDigest(named.Digest):
			return fmt.Errorf("its content %.100q has as sha256 %.100q, which is no SHA-256 in hexadecimal digits", named.Name, named.Digest)
		case (named.Size == 0) != bytes.Equal(named.Digest, emptyDigest):
			return fmt.Errorf("its content %.100q has the size %d, which is not that of its digest %s", named.Name, named.Size, named.Digest)
		}
	}
	if c.Timestamp != nil {
		if _, ok := ParseTime(c.Timestamp); !ok || len(c.Timestamp) > MaxTimestamp {
			return fmt.Errorf("its timestamp %.100q is not RFC 3339", c.Timestamp)
		}
	}
	for name, value := range c.Labels.Members() {
		if value.Kind() != pyjson.String || len(name.Text()) == 0 {
			return fmt.Errorf("its label %.100q is %.100s", name.Text(), value.Raw())
		}
	}
	var f forms
	if c.RunID != nil {
		f.filled("run_id", c.RunID, MaxName)
	}
	if c.Producer.ID != nil || c.Producer.Seq != nil {
		f.filled("producer's id", c.Producer.ID, maxProducer)
		f.required("producer's seq", c.Producer.Seq, len(c.Producer.Seq))
		f.count("producer's seq", c.Producer.Seq)
		if !isProducerSeq(c.Producer.Seq) {
			f.fail("producer's seq", c.Producer.Seq, "is too large")
		}
	}
	return f.err
}

// emptyDigest is the SHA-256 of nothing, in hexadecimal digits.
var emptyDigest = rules.AppendHex(nil, sha256.Sum256(nil))

// Producer says who made a record and as which of its own, counted from 1: what
// is missing in the count was never posted.
type Producer struct {
	ID  []byte // nil when the record names none
	Seq []byte // decimal, 0 to 2^63-1
}

// isProducerSeq reports whether a count in decimal is one that a producer can have.
func isProducerSeq(seq []byte) bool {
	_, err := strconv.ParseInt(string(seq), 10, 64)
	return err == nil
}

func (p *Producer) append(w *pyjson.Builder) {
	if p.ID == nil {
		return
	}
	w.Name("producer")
	w.OpenOrdered()
	w.Text("id", p.ID)
	w.Raw("seq", p.Seq)
	w.Close()
}

// maxProducer bounds a producer's id, in bytes.
const maxProducer = MaxShort
