package fields

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"strconv"

	"colophon/ledger/record/moment"
	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
)

// CommonFields holds the members of an event's record that are common to all kinds.
type CommonFields struct {
	Contents             []Content    // content that the record refers to
	Digest               rules.Hash   // SHA-256 of the normalised record or, for an action, of its request and target
	IdempotencyKeyDigest *rules.Hash  // digest of the idempotency key; nil if there is no key
	Labels               pyjson.Value // Absent if there are no labels
	Producer             Producer     // zero if the record names no producer
	RunID                []byte       // nil if there is none
	// Timestamp is an RFC 3339 time exactly as the client sent it, or nil if there is none.
	Timestamp []byte

	// Hashes contains the effective hashes as canonical JSON. If it is nil, the AppendHashes method
	// of FieldsWithHashes writes them.
	Hashes []byte
}

// Content names and describes a piece of content (spec: Content).
type Content struct {
	Name   string // name within the record, such as "output"
	Digest []byte // SHA-256 of the content's bytes, in hexadecimal digits
	Size   uint64 // length of the content in bytes
}

func (c *CommonFields) appendContents(w *pyjson.Builder) {
	if len(c.Contents) > 0 {
		w.BeginMember("content")
		w.BeginObject()
		for i := range c.Contents {
			named := &c.Contents[i]
			w.BeginMember(named.Name)
			w.Buf = append(append(w.Buf, `{"sha256":"`...), named.Digest...)
			w.Buf = append(strconv.AppendUint(append(w.Buf, `","size":`...), named.Size, 10), '}')
		}
		w.EndObject()
	}
}

// appendIdentity writes the record's digest and, if the record has an idempotency key, the digest
// of that key.
func (c *CommonFields) appendIdentity(w *pyjson.Builder) {
	w.AddDigest("digest", c.Digest)
	c.appendKey(w)
}

func (c *CommonFields) appendKey(w *pyjson.Builder) {
	if c.IdempotencyKeyDigest != nil {
		w.AddDigest("idempotency_key", *c.IdempotencyKeyDigest)
	}
}

func (c *CommonFields) appendHashes(w *pyjson.Builder, f FieldsWithHashes) {
	w.BeginMember("hashes")
	if c.Hashes != nil {
		w.Buf = append(w.Buf, c.Hashes...)
		return
	}
	w.BeginSortedObject()
	f.AppendHashes(w)
	w.EndObject()
}

// Check returns an error if these fields would be invalid in an event of any kind.
func (c *CommonFields) Check() error {
	for i := range c.Contents {
		switch named := &c.Contents[i]; {
		case !rules.IsDigest(named.Digest):
			return fmt.Errorf("the sha256 of the event's content %.100q is %.100q, which is not a hex-encoded SHA-256", named.Name, named.Digest)
		case (named.Size == 0) != bytes.Equal(named.Digest, emptyDigest):
			return fmt.Errorf("the event's content %.100q has the size %d, which contradicts its digest %s", named.Name, named.Size, named.Digest)
		}
	}
	if c.Timestamp != nil {
		if _, ok := moment.Parse(c.Timestamp); !ok || len(c.Timestamp) > MaxTimestampBytes {
			return fmt.Errorf("the event's timestamp %.100q is not in RFC 3339 format", c.Timestamp)
		}
	}
	for name, value := range c.Labels.Members() {
		if value.Kind() != pyjson.String || len(name.Text()) == 0 {
			return fmt.Errorf("the event's label %.100q is %.100s, but a label must have a name and a string as its value", name.Text(), value.Raw())
		}
	}
	var f forms
	if c.RunID != nil {
		f.filled("run_id", c.RunID, MaxNameBytes)
	}
	if c.Producer.ID != nil || c.Producer.Seq != nil {
		f.filled("producer's id", c.Producer.ID, MaxProducerIDBytes)
		f.required("producer's seq", c.Producer.Seq, len(c.Producer.Seq))
		f.count("producer's seq", c.Producer.Seq)
		if !IsProducerSeq(c.Producer.Seq) {
			f.fail("producer's seq", c.Producer.Seq, "is too large")
		}
	}
	return f.err
}

// emptyDigest is the SHA-256 of the empty string, in hexadecimal digits.
var emptyDigest = rules.AppendHex(nil, sha256.Sum256(nil))

// Producer identifies the producer of a record and gives the number that it assigned to the record.
// A producer numbers its records from 1, so a gap means that a record was never posted.
type Producer struct {
	ID  []byte // nil if the record names no producer
	Seq []byte // a decimal number from 0 to 2^63-1
}

// IsProducerSeq reports whether seq is a decimal number that fits in an int64, and so can be a
// producer's number for a record.
func IsProducerSeq(seq []byte) bool {
	_, err := strconv.ParseInt(string(seq), 10, 64)
	return err == nil
}

func (p *Producer) append(w *pyjson.Builder) {
	if p.ID == nil {
		return
	}
	w.BeginMember("producer")
	w.BeginSortedObject()
	w.AddText("id", p.ID)
	w.AddRaw("seq", p.Seq)
	w.EndObject()
}

// MaxProducerIDBytes is the maximum length of a producer's ID, in bytes.
const MaxProducerIDBytes = MaxShortTextBytes
