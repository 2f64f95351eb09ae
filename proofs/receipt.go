package proofs

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"

	"colophon/ledger/record/pyjson"
)

// Receipt is the ledger's response to a request that appended an event (spec: Receipts).
type Receipt struct {
	Ledger string
	Seq    uint64
	Kind   string // kind of the event
	Time   string // same text as in the event (spec: Event body)

	EventHash     Hash // covers the event and PrevEventHash
	PrevEventHash Hash // event_hash of the previous event in the log
	LeafHash      Hash // RFC 6962 hash of the log entry

	Hashes []byte // canonical JSON object: the event's record.hashes, or {} if it has none
	Checks []byte // canonical JSON object: the event's checks, or {} if it has none
	// Shape and FailureStage are the event's record.shape and record.failure_stage as
	// canonical JSON, or nil if absent. Only run_dag events have them.
	Shape, FailureStage []byte

	// MissingMembers lists the members that an IPC record lacks, as canonical JSON. It is nil if no
	// members are missing.
	MissingMembers []byte

	// Replayed means that the request appended nothing, because the log already contained the same
	// record under the same idempotency key (spec: Idempotency). It describes the response, not the
	// event, so no proof covers it.
	Replayed bool

	// UnknownMembers lists the names of the additional members that ParseReceipt found, in order of
	// appearance. The server derived them from other events (spec: Receipts), or this version does
	// not know them. No proof covers them, so only the server vouches for them.
	UnknownMembers []string

	// Proof is nil in a minimal receipt, which proves nothing.
	Proof *ReceiptProof
}

// ReceiptProof is the part of a receipt that makes it possible to verify the receipt without access
// to the ledger.
type ReceiptProof struct {
	Event      []byte         // the complete event body, as canonical JSON
	Inclusion  InclusionProof // proof that the checkpoint's tree contains the event
	Checkpoint []byte         // signed note
}

// InclusionProof is an RFC 6962 inclusion proof.
type InclusionProof struct {
	LeafIndex uint64 // seq of the event
	TreeSize  uint64 // number of entries in the tree
	Hashes    []Hash // from the leaf upwards
}

// NewReceipt returns the minimal receipt for an entry. It returns ErrTooLong or ErrMalformed if the
// entry does not contain a valid event.
func NewReceipt(entry []byte) (*Receipt, error) {
	prev, body, err := SplitEntry(entry)
	if err != nil {
		return nil, err
	}
	e, err := readEvent(body)
	if err != nil {
		return nil, err
	}
	return &Receipt{
		Ledger: e.ledger, Seq: e.seq, Kind: e.kind, Time: e.time,
		EventHash: EventHash(prev, body), PrevEventHash: prev, LeafHash: LeafHash(entry),
		Hashes: e.hashes, Checks: e.checks, Shape: e.shape, FailureStage: e.failureStage, MissingMembers: e.incomplete,
	}, nil
}

// AppendJSON appends the receipt as one JSON object. It copies Hashes, Checks, and the event
// unchanged.
func (r *Receipt) AppendJSON(dst []byte) []byte {
	dst = slices.Grow(dst, r.jsonSize())
	dst = pyjson.AppendString(append(dst, `{"ledger":`...), []byte(r.Ledger))
	dst = strconv.AppendUint(append(dst, `,"seq":`...), r.Seq, 10)
	dst = pyjson.AppendString(append(dst, `,"kind":`...), []byte(r.Kind))
	dst = pyjson.AppendString(append(dst, `,"time":`...), []byte(r.Time))
	dst = appendHash(append(dst, `,"event_hash":`...), r.EventHash)
	dst = appendHash(append(dst, `,"prev_event_hash":`...), r.PrevEventHash)
	dst = appendHash(append(dst, `,"leaf_hash":`...), r.LeafHash)
	dst = append(append(dst, `,"hashes":`...), r.Hashes...)
	dst = append(append(dst, `,"checks":`...), r.Checks...)
	if r.Shape != nil {
		dst = append(append(dst, `,"shape":`...), r.Shape...)
	}
	if r.FailureStage != nil {
		dst = append(append(dst, `,"failure_stage":`...), r.FailureStage...)
	}
	if r.MissingMembers != nil {
		dst = append(append(dst, `,"incomplete":`...), r.MissingMembers...)
	}
	if r.Replayed {
		dst = append(dst, `,"replayed":true`...)
	}
	if r.Proof != nil {
		dst = r.Proof.appendJSON(dst)
	}
	return append(dst, '}')
}

func (p *ReceiptProof) appendJSON(dst []byte) []byte {
	dst = append(append(dst, `,"event":`...), p.Event...)
	dst = p.Inclusion.AppendJSON(append(dst, `,"inclusion":`...))
	return pyjson.AppendString(append(dst, `,"checkpoint":`...), p.Checkpoint)
}

// AppendJSON appends a JSON object with the members leaf_index, tree_size, and hashes.
func (i *InclusionProof) AppendJSON(dst []byte) []byte {
	dst = strconv.AppendUint(append(dst, `{"leaf_index":`...), i.LeafIndex, 10)
	dst = strconv.AppendUint(append(dst, `,"tree_size":`...), i.TreeSize, 10)
	dst = AppendHashesJSON(append(dst, `,"hashes":`...), i.Hashes)
	return append(dst, '}')
}

// AppendHashesJSON appends the hashes as a JSON array of hexadecimal strings (spec: Receipts).
func AppendHashesJSON(dst []byte, hashes []Hash) []byte {
	dst = append(dst, '[')
	for i, h := range hashes {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendHash(dst, h)
	}
	return append(dst, ']')
}

func appendHash(dst []byte, h Hash) []byte {
	return append(hex.AppendEncode(append(dst, '"'), h[:]), '"')
}

// jsonSize estimates the length of the receipt in JSON, in bytes.
func (r *Receipt) jsonSize() int {
	size := 512 + len(r.Hashes) + len(r.Checks)
	if r.Proof != nil {
		size += 256 + len(r.Proof.Event) + 67*len(r.Proof.Inclusion.Hashes) + len(r.Proof.Checkpoint)
	}
	return size
}

// receiptMembers lists the known members of a receipt. Verify checks all of them except "replayed".
var receiptMembers = []string{"ledger", "seq", "kind", "time", "event_hash", "prev_event_hash", "leaf_hash",
	"hashes", "checks", "shape", "failure_stage", "incomplete", "replayed", "event", "inclusion", "checkpoint"}

// CoveredMembers returns the names of the members of r that Verify checks.
func (r *Receipt) CoveredMembers() []string {
	has := map[string]bool{"shape": r.Shape != nil, "failure_stage": r.FailureStage != nil, "incomplete": r.MissingMembers != nil}
	var names []string
	for _, name := range receiptMembers {
		if present, optional := has[name]; name != "replayed" && (present || !optional) {
			names = append(names, name)
		}
	}
	return names
}

// UncoveredMembers returns the names of the members of r that no proof covers.
func (r *Receipt) UncoveredMembers() []string {
	if r.Replayed {
		return append([]string{"replayed"}, r.UnknownMembers...)
	}
	return r.UnknownMembers
}

// maxValues is the maximum number of JSON values and member names in a receipt or nested proof. It
// bounds memory, because parsing a value of two bytes needs many more bytes.
const maxValues = 1 << 20

// ParseReceipt parses a receipt strictly. It returns ErrMalformed if a member is missing, repeated,
// or of the wrong type, or if the receipt has more than 1,048,576 JSON values and member names. It lists the names of unknown members in Receipt.UnknownMembers. White
// space, the order of members, and the spelling of JSON values do not matter.
func ParseReceipt(text []byte) (*Receipt, error) {
	var doc pyjson.Document
	if err := doc.ParseLimited(text, maxValues); err != nil {
		return nil, fmt.Errorf("%w: parsing the receipt: %w", ErrMalformed, err)
	}
	if pointer, found := doc.Root().FindLoneSurrogate(); found {
		return nil, fmt.Errorf("%w: the receipt has a lone surrogate at %q", ErrMalformed, pointer)
	}
	var in reader
	root := doc.Root()
	if root.Kind() != pyjson.Object {
		in.fail("the receipt is not an object")
	}
	r := &Receipt{
		Ledger:         in.text(root.Member("ledger"), "ledger"),
		Seq:            in.count(root.Member("seq"), "seq"),
		Kind:           in.text(root.Member("kind"), "kind"),
		Time:           in.text(root.Member("time"), "time"),
		EventHash:      in.hash(root.Member("event_hash"), "event_hash"),
		PrevEventHash:  in.hash(root.Member("prev_event_hash"), "prev_event_hash"),
		LeafHash:       in.hash(root.Member("leaf_hash"), "leaf_hash"),
		Hashes:         in.object(root.Member("hashes"), "hashes"),
		Checks:         in.object(root.Member("checks"), "checks"),
		Shape:          canonicalOrNil(root.Member("shape")),
		FailureStage:   canonicalOrNil(root.Member("failure_stage")),
		MissingMembers: canonicalOrNil(root.Member("incomplete")),
		Replayed:       in.flag(root.Member("replayed"), "replayed"),
	}
	for name := range root.Members() {
		if !slices.Contains(receiptMembers, string(name.Text())) {
			r.UnknownMembers = append(r.UnknownMembers, string(name.Text()))
		}
	}
	event, inclusion, checkpoint := root.Member("event"), root.Member("inclusion"), root.Member("checkpoint")
	if event.Kind() != pyjson.Absent || inclusion.Kind() != pyjson.Absent || checkpoint.Kind() != pyjson.Absent {
		in.allowOnly(inclusion, "inclusion", "leaf_index", "tree_size", "hashes")
		r.Proof = &ReceiptProof{
			Event: in.object(event, "event"),
			Inclusion: InclusionProof{
				LeafIndex: in.count(inclusion.Member("leaf_index"), "inclusion leaf_index"),
				TreeSize:  in.count(inclusion.Member("tree_size"), "inclusion tree_size"),
				Hashes:    in.hashList(inclusion.Member("hashes"), "inclusion hashes"),
			},
			Checkpoint: []byte(in.text(checkpoint, "checkpoint")),
		}
	}
	if in.err != nil {
		return nil, in.err
	}
	return r, nil
}

// Verify verifies a receipt, using verifiers for the log's keys (spec: Verifying a receipt). It
// returns the first failure in this order: ErrNoProof, the errors of OpenCheckpoint, ErrChainLink,
// ErrInclusion, ErrMalformed if the proved bytes are not a valid event, and ErrFieldMismatch.
func (r *Receipt) Verify(verifiers ...*Verifier) error {
	if r.Proof == nil {
		return fmt.Errorf("%w: the receipt of event %d is minimal, so it has no proof", ErrNoProof, r.Seq)
	}
	checkpoint, err := OpenCheckpoint(r.Proof.Checkpoint, verifiers...)
	if err != nil {
		return err
	}
	if err := r.verifyLink(); err != nil {
		return err
	}
	if err := r.verifyInclusion(checkpoint); err != nil {
		return err
	}
	return r.verifyFields()
}

// verifyLink checks event_hash and leaf_hash against the event and prev_event_hash.
func (r *Receipt) verifyLink() error {
	if h := EventHash(r.PrevEventHash, r.Proof.Event); h != r.EventHash {
		return fmt.Errorf("%w: the hash of prev_event_hash and the event is %x, but event_hash is %x", ErrChainLink, h, r.EventHash)
	}
	if h := LeafHash(AppendEntry(nil, r.PrevEventHash, r.Proof.Event)); h != r.LeafHash {
		return fmt.Errorf("%w: the leaf hash of prev_event_hash and the event is %x, but leaf_hash is %x", ErrChainLink, h, r.LeafHash)
	}
	return nil
}

func (r *Receipt) verifyInclusion(c Checkpoint) error {
	in := &r.Proof.Inclusion
	if in.LeafIndex != r.Seq {
		return fmt.Errorf(`%w: the member "leaf_index" is %d, but "seq" is %d`, ErrInclusion, in.LeafIndex, r.Seq)
	}
	if in.TreeSize != c.Size {
		return fmt.Errorf(`%w: the member "tree_size" is %d, but the checkpoint's tree size is %d`, ErrInclusion, in.TreeSize, c.Size)
	}
	return VerifyInclusion(r.LeafHash, in.LeafIndex, in.TreeSize, in.Hashes, c.Root)
}

// verifyFields checks the members of the receipt that repeat parts of the event.
func (r *Receipt) verifyFields() error {
	e, err := readEvent(r.Proof.Event)
	switch {
	case err != nil:
		return err
	case r.Ledger != e.ledger:
		return fmt.Errorf(`%w: the member "ledger" is %.100q in the receipt, but %.100q in the event`, ErrFieldMismatch, r.Ledger, e.ledger)
	case r.Seq != e.seq:
		return fmt.Errorf(`%w: the member "seq" is %d in the receipt, but %d in the event`, ErrFieldMismatch, r.Seq, e.seq)
	case r.Kind != e.kind:
		return fmt.Errorf(`%w: the member "kind" is %.100q in the receipt, but %.100q in the event`, ErrFieldMismatch, r.Kind, e.kind)
	case r.Time != e.time:
		return fmt.Errorf(`%w: the member "time" is %.100q in the receipt, but %.100q in the event`, ErrFieldMismatch, r.Time, e.time)
	case !bytes.Equal(r.Hashes, e.hashes):
		return fmt.Errorf(`%w: the member "hashes" is %.200s in the receipt, but %.200s in the event`, ErrFieldMismatch, r.Hashes, e.hashes)
	case !bytes.Equal(r.Checks, e.checks):
		return fmt.Errorf(`%w: the member "checks" is %.200s in the receipt, but %.200s in the event`, ErrFieldMismatch, r.Checks, e.checks)
	case !bytes.Equal(r.Shape, e.shape):
		return fmt.Errorf(`%w: the member "shape" is %.100s in the receipt, but %.100s in the event`, ErrFieldMismatch, r.Shape, e.shape)
	case !bytes.Equal(r.MissingMembers, e.incomplete):
		return fmt.Errorf(`%w: the member "incomplete" is %.200s in the receipt, but %.200s in the event`, ErrFieldMismatch, r.MissingMembers, e.incomplete)
	case !bytes.Equal(r.FailureStage, e.failureStage):
		return fmt.Errorf(`%w: the member "failure_stage" is %.100s in the receipt, but %.100s in the event`, ErrFieldMismatch, r.FailureStage, e.failureStage)
	}
	return nil
}
