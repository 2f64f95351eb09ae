package client

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"colophon/client/wire"
)

// RecordsService posts and reads records, and changes their states.
type RecordsService struct{ ledger *Ledger }

// PostOptions are the options for posting a record. A nil pointer means the defaults.
type PostOptions struct {
	// IdempotencyKey identifies the record for as long as the ledger exists. If the same record is posted again with
	// the same key, the server returns the first receipt. If a different record is posted with the key, Post returns
	// an error that matches [ErrConflict]. A key has at most 1,024 bytes. The default is the record's run_id or,
	// without one, a random key.
	IdempotencyKey string
	// OnMismatch determines what the ledger does with a record whose claims do not match its content: accept or
	// reject. The default is the ledger's setting.
	OnMismatch string
	// IncludeDerivedMembers adds to the receipt the members that the server derives from earlier
	// events. The server waits for its index before it responds.
	IncludeDerivedMembers bool
	// MinimizeReceipt makes the server omit the event, the proof and the checkpoint from the
	// receipt. It has no effect if the client verifies receipts.
	MinimizeReceipt bool
}

func (o *PostOptions) values() url.Values {
	q := make(url.Values)
	setText(q, "on_mismatch", o.OnMismatch)
	setFlag(q, "derive", o.IncludeDerivedMembers)
	return q
}

// ChangeOptions are the options for writes that do not post a record. A nil pointer means the
// defaults.
type ChangeOptions struct {
	// IdempotencyKey identifies the request, just as [PostOptions.IdempotencyKey] identifies a record. The
	// default is a random key.
	IdempotencyKey string
	// MinimizeReceipt makes the server omit the event, the proof and the checkpoint from the
	// receipt. It has no effect if the client verifies receipts.
	MinimizeReceipt bool
}

// change describes a write and the kind of event that it creates.
type change struct {
	method, path string // path is relative to the ledger's path
	query        url.Values
	body         any
	kind         wire.Kind
	run, key     string
	minimal      bool
	unkeyed      bool // the endpoint accepts no idempotency keys
}

// write sends w and returns the receipt. If the receipt does not verify, it also returns a [ReceiptError].
func (l *Ledger) write(ctx context.Context, w change) (*wire.Receipt, error) {
	r, err := request{method: w.method, path: l.path + w.path, query: w.query, header: make(map[string]string)}.withBody(w.body)
	if err != nil {
		return nil, err
	}
	if w.key == "" && w.run == "" && !w.unkeyed && l.client.randomKeys {
		w.key = rand.Text()
	}
	if w.key != "" {
		r.header["Idempotency-Key"] = w.key
	}
	if w.minimal && !l.hasVerifiers() {
		r.header["Prefer"] = "return=minimal"
	}
	r.repeat = w.key != "" || w.run != ""
	receipt, err := answer[wire.Receipt](ctx, l.client, r)
	if err != nil {
		return nil, err
	}
	return receipt, l.accept(receipt, expect(w.kind, w.key, w.run))
}

func (w change) with(o *ChangeOptions) change {
	if o != nil {
		w.key, w.minimal = o.IdempotencyKey, o.MinimizeReceipt
	}
	return w
}

var routes = map[wire.Kind]string{
	wire.KindIPCRecord: "/ipc-records", wire.KindRunDAG: "/run-dags",
	wire.KindCitationSet: "/citation-sets", wire.KindPathFingerprint: "/path-fingerprints",
}

// Post posts a record: POST /ipc-records, /run-dags, /citation-sets or /path-fingerprints. When it returns a receipt,
// the record is durable. If the receipt fails verification, Post returns both the receipt and a [ReceiptError]. After
// [ErrUnreachable] or [ErrUnexpectedResponse], the record might have been recorded. To find out, post it again with the
// same idempotency key or run_id.
func (s *RecordsService) Post(ctx context.Context, record wire.Record, o *PostOptions) (*wire.Receipt, error) {
	if o == nil {
		o = new(PostOptions)
	}
	kind := record.RecordKind()
	route, known := routes[kind]
	if !known {
		return nil, fmt.Errorf("client: %.60q is not a kind of record; use wire.KindIPCRecord, wire.KindRunDAG, wire.KindCitationSet, or wire.KindPathFingerprint", kind)
	}
	return s.ledger.write(ctx, change{method: http.MethodPost, path: route, query: o.values(), body: record,
		kind: kind, run: record.RecordRunID(), key: o.IdempotencyKey, minimal: o.MinimizeReceipt})
}

// SetState sets the state of an IPC record or a run-DAG: POST /records/{seq}/state. The reason is stored in the
// log.
func (s *RecordsService) SetState(ctx context.Context, seq uint64, c wire.StateChange, o *ChangeOptions) (*wire.Receipt, error) {
	return s.ledger.write(ctx, change{method: http.MethodPost, path: join("records", decimal(seq), "state"), body: c, kind: wire.KindRecordStateChanged}.with(o))
}

// SetStates sets the state of many records: POST /state-changes. In a dry run, it only reports what it would
// do. The client does not retry this call, and only ctx limits its duration. If the client has keys, it verifies
// the receipts. If a receipt fails verification, SetStates returns both the result and a [ReceiptError].
func (s *RecordsService) SetStates(ctx context.Context, r wire.StateChangeRequest) (*wire.StateChangeResult, error) {
	l := s.ledger
	done, err := exchange[wire.StateChangeResult](ctx, l.client, request{method: http.MethodPost, path: l.path + "/state-changes", slow: true}, r)
	if err != nil {
		return nil, err
	}
	for _, receipt := range done.Receipts {
		if err := l.accept(receipt, expected{kind: wire.KindRecordStateChanged}); err != nil {
			return done, err
		}
	}
	return done, nil
}

// AddNote adds a note to a record: POST /records/{seq}/notes. The text is stored in the log.
func (s *RecordsService) AddNote(ctx context.Context, seq uint64, note wire.Note, o *ChangeOptions) (*wire.Receipt, error) {
	return s.ledger.write(ctx, change{method: http.MethodPost, path: join("records", decimal(seq), "notes"), body: note, kind: wire.KindNote}.with(o))
}

// Redact withdraws the content of one record: DELETE /records/{seq}/content. Content that other records share is
// kept until those records are redacted too. The event and all proofs stay valid.
func (s *RecordsService) Redact(ctx context.Context, seq uint64, reason string, o *ChangeOptions) (*wire.Receipt, error) {
	return s.ledger.write(ctx, change{method: http.MethodDelete, path: join("records", decimal(seq), "content"),
		body: wire.ContentRedaction{Reason: reason}, kind: wire.KindContentRedacted}.with(o))
}

// RedactMany withdraws the content of many records: POST /redactions. In a dry run, it only reports what it would
// do. The client does not retry this call, and only ctx limits its duration. If the client has keys, it verifies
// the receipts. If a receipt fails verification, RedactMany returns both the result and a [ReceiptError].
func (s *RecordsService) RedactMany(ctx context.Context, r wire.RedactionRequest) (*wire.RedactionResult, error) {
	l := s.ledger
	done, err := exchange[wire.RedactionResult](ctx, l.client, request{method: http.MethodPost, path: l.path + "/redactions", slow: true}, r)
	if err != nil {
		return nil, err
	}
	for _, receipt := range done.Receipts {
		if err := l.accept(receipt, expected{kind: wire.KindContentRedacted}); err != nil {
			return done, err
		}
	}
	return done, nil
}

// RecordFilter selects records. A nil pointer selects all.
type RecordFilter struct {
	QueryOptions
	Kind  wire.Kind  // "" means all kinds
	State wire.State // "" means any
	// Clock selects the time that Since, Until and the sort order use: recorded (the default) for the time
	// of the event, or occurred for the record's own timestamp.
	Clock         string
	Since, Until  time.Time // Since is inclusive, Until is exclusive; zero means no limit
	IncludeEvents bool      // include the whole event in each row
	// Where holds further filters of GET /records, keyed by parameter name, such as run_id, subject, project,
	// model, label:NAME, source_id, flag, mismatch, inconsistent, chunk_hash, stage:NAME, producer, producer_seq,
	// path_id, or the name of any hash. record_seq and topic select notes. Only records that match all filters
	// are selected.
	Where map[string]string
}

func (f *RecordFilter) values() url.Values {
	if f == nil {
		return make(url.Values)
	}
	q := f.QueryOptions.values()
	setText(q, "kind", string(f.Kind))
	setText(q, "state", string(f.State))
	setText(q, "clock", f.Clock)
	setTime(q, "since", f.Since)
	setTime(q, "until", f.Until)
	setFlag(q, "events", f.IncludeEvents)
	for name, value := range f.Where {
		q.Set(name, value)
	}
	return q
}

// List lists records, newest first: GET /records.
func (s *RecordsService) List(f *RecordFilter) *PagedList[wire.ListedRecord] {
	return list[wire.ListedRecord](s.ledger, "/records", f.values())
}

// ListByRunOptions are the options of [RecordsService.ListByRun].
type ListByRunOptions struct {
	QueryOptions
	State wire.State // "" means any
}

// ListByRun lists the records of all kinds that belong to one run: GET /runs/{run_id}.
func (s *RecordsService) ListByRun(runID string, o *ListByRunOptions) *PagedList[wire.ListedRecord] {
	if o == nil {
		o = new(ListByRunOptions)
	}
	q := o.QueryOptions.values()
	setText(q, "state", string(o.State))
	return list[wire.ListedRecord](s.ledger, "/runs/"+wire.EscapeRunID(runID), q)
}

// CompareRuns compares the records of run b with those of run a: GET /runs/compare. a and b are run_ids.
func (s *RecordsService) CompareRuns(ctx context.Context, a, b string, o *StateOptions) (*wire.RunsComparison, error) {
	return answer[wire.RunsComparison](ctx, s.ledger.client, get(s.ledger.path+"/runs/compare", setPair(o.values(), a, b)))
}

// GetRecordOptions are the options of [RecordsService.Get].
type GetRecordOptions struct {
	QueryOptions
	IncludeDerivedMembers bool // include the members that the server derives from earlier events
}

// Get reads a record or any other event: GET /records/{seq}.
func (s *RecordsService) Get(ctx context.Context, seq uint64, o *GetRecordOptions) (*wire.RecordAnswer, error) {
	if o == nil {
		o = new(GetRecordOptions)
	}
	q := o.QueryOptions.values()
	setFlag(q, "derive", o.IncludeDerivedMembers)
	return answer[wire.RecordAnswer](ctx, s.ledger.client, get(s.path(seq, ""), q))
}

// Content reads one piece of a record's content, byte for byte: GET /records/{seq}/content/{name}. The event lists
// the names of its content, such as payload or output. [ErrGone] means that the content has been erased.
func (s *RecordsService) Content(ctx context.Context, seq uint64, name string) ([]byte, error) {
	return s.ledger.client.call(ctx, get(s.path(seq, "/content")+join(strings.Split(name, "/")...), nil))
}

// Receipt reads the receipt of an event: GET /records/{seq}/receipt. The inclusion proof is for the tree of size
// treeSize, or for the current tree if treeSize is 0. If the client has keys, it verifies the receipt. If
// verification fails, Receipt returns both the receipt and a [ReceiptError].
func (s *RecordsService) Receipt(ctx context.Context, seq, treeSize uint64) (*wire.Receipt, error) {
	receipt, err := answer[wire.Receipt](ctx, s.ledger.client, get(s.path(seq, "/receipt"), size(treeSize)))
	if err != nil {
		return nil, err
	}
	if receipt.Seq != seq {
		return nil, fmt.Errorf("%w: the receipt is for event %d, not %d", ErrUnexpectedResponse, receipt.Seq, seq)
	}
	return receipt, s.ledger.accept(receipt, expected{kind: receipt.Kind})
}

// TlogProof reads the receipt of an event in the c2sp.org/tlog-proof@v1 format, which other tools can
// verify: GET /records/{seq}/receipt. The client does not verify this receipt.
func (s *RecordsService) TlogProof(ctx context.Context, seq, treeSize uint64) ([]byte, error) {
	r := get(s.path(seq, "/receipt"), size(treeSize))
	r.header = map[string]string{"Accept": "text/plain"}
	return s.ledger.client.call(ctx, r)
}

// StageProof reads a proof of one stage of a run-DAG: GET /records/{seq}/proof?stage=. If several stages have the
// same name, the second is called name#2. If the client has keys, it verifies the proof. The caller must check that
// the proof is for this stage.
func (s *RecordsService) StageProof(ctx context.Context, seq uint64, stage string, treeSize uint64) (*wire.NestedProof, error) {
	return s.prove(ctx, seq, treeSize, "stage", stage)
}

// CitationProof reads a proof of one citation of a set: GET /records/{seq}/proof?citation=. citationIndex is its index
// in the set, starting at 0. If the client has keys, it verifies the proof. The caller must check that the proof is
// for this citation.
func (s *RecordsService) CitationProof(ctx context.Context, seq, citationIndex, treeSize uint64) (*wire.NestedProof, error) {
	return s.prove(ctx, seq, treeSize, "citation", decimal(citationIndex))
}

func (s *RecordsService) prove(ctx context.Context, seq, treeSize uint64, name, part string) (*wire.NestedProof, error) {
	q := size(treeSize)
	q.Set(name, part)
	proof, err := answer[wire.NestedProof](ctx, s.ledger.client, get(s.path(seq, "/proof"), q))
	if err != nil {
		return nil, err
	}
	return s.ledger.acceptNested(proof, seq)
}

func (s *RecordsService) path(seq uint64, rest string) string {
	return s.ledger.path + join("records", decimal(seq)) + rest
}

func size(treeSize uint64) url.Values {
	q := make(url.Values)
	setCount(q, "tree_size", treeSize)
	return q
}
