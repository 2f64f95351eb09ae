package faults_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"colophon/ledger"
	"colophon/ledger/record"
	"colophon/ledger/storeaudit"
	"colophon/proofs"
	"colophon/proofs/audit"
	"colophon/storage"
)

// oracle compares the state of an open node after a fault with the responses that clients received.
// During the comparison, nothing else may use the node or the history.
type oracle struct {
	ctx  context.Context
	node *node
	*history
	verifier *proofs.Verifier
	verbs    map[string]int  // IDs of attempts that make changes, keyed by idempotency key digest or by reason
	events   []event         // all events of the log, indexed by seq
	found    map[int][]event // events that each attempt caused, keyed by attempt ID
}

// event is an event of the log. Its body is parsed without the code under test.
type event struct {
	seq  uint64
	hash proofs.Hash
	body struct {
		Kind   record.Kind
		Seq    uint64
		Time   string
		Record struct {
			Labels         map[string]string
			IdempotencyKey string `json:"idempotency_key"`
			Digest         string
			Content        map[string]struct{ SHA256 string }
			Model          string
			RecordSeq      uint64 `json:"record_seq"`
			State          record.State
			Reason         string
		}
	}
}

// check returns nil if nothing was lost or damaged. Every event that was acknowledged to a client
// must be in the log. Every other attempt must be in the log either completely or not at all. check
// also submits a few records itself and adds them to the history.
//
// If h.complete is set, the server shut down gracefully without interrupting a request. In that
// case, everything in the log must also have been acknowledged.
func check(ctx context.Context, n *node, h *history) error {
	o := &oracle{ctx: ctx, node: n, history: h, verbs: make(map[string]int), found: make(map[int][]event)}
	for _, a := range h.attempts {
		if len(a.targets) > 0 {
			o.verbs[reasonOf(a.id)] = a.id
		} else if !a.isRecord() {
			o.verbs[a.keyDigest()] = a.id
		}
	}
	if err := errors.Join(h.wrong...); err != nil {
		return err
	}
	var err error
	if o.verifier, err = proofs.ParseVerifier(n.ledger.VerifierKey()); err != nil {
		return err
	}
	for _, part := range []struct {
		name string
		run  func() error
	}{
		{"log", o.log}, {"receipts", o.receipts}, {"attempts", o.once}, {"content", o.contents},
		{"resubmitting", o.again}, {"log afterwards", o.log}, {"index", o.index},
	} {
		if err := part.run(); err != nil {
			return fmt.Errorf("oracle, %s: %w", part.name, err)
		}
	}
	return nil
}

// log verifies the whole log: chain, tree and tiles, checkpoint, content, redactions, and keys. It
// checks that nothing else is stored in the database, and then reads the events into o.events and
// o.found.
func (o *oracle) log() error {
	report, err := audit.WalkLog(o.ctx, storeaudit.NewSource(o.node.ledger.Reader()),
		audit.Options{Verifiers: []*proofs.Verifier{o.verifier}, Ledger: ledger.DefaultName})
	if err != nil {
		return err
	}
	if report.Damage != nil {
		return report.Damage
	}
	if head := o.node.ledger.Head(); report.Size != head.Size || report.Checkpoint.Root != head.Root {
		return fmt.Errorf("the ledger publishes size %d, but %d entries are stored", head.Size, report.Size)
	}
	if _, lists := o.node.database.(storage.KeyChecker); lists {
		strays, err := storeaudit.FindStrayKeys(o.ctx, o.node.database, map[string]*audit.Report{ledger.DefaultName: report}, nil)
		if err != nil {
			return err
		}
		if len(strays) > 0 {
			return strays[0]
		}
	}
	o.events = nil
	clear(o.found)
	for entry, err := range o.node.ledger.Reader().Entries(o.ctx, 0) {
		if err != nil {
			return err
		}
		if err := o.read(entry); err != nil {
			return fmt.Errorf("event %d: %w", entry.Seq, err)
		}
	}
	return nil
}

func (o *oracle) read(entry storage.Entry) error {
	e := event{seq: uint64(len(o.events))}
	prev, body, err := proofs.SplitEntry(entry.Bytes)
	if err != nil {
		return err
	}
	e.hash = proofs.EventHash(prev, body)
	if err := json.Unmarshal(body, &e.body); err != nil {
		return err
	}
	if e.body.Seq != e.seq || entry.Seq != e.seq {
		return fmt.Errorf("it is entry %d, but its seq is %d", e.seq, e.body.Seq)
	}
	if n := len(o.events); n > 0 && e.body.Time < o.events[n-1].body.Time {
		return fmt.Errorf("its time %s is before that of the previous event, %s", e.body.Time, o.events[n-1].body.Time)
	}
	o.events = append(o.events, e)
	if id, of := o.attempt(e); of {
		o.found[id] = append(o.found[id], e)
	}
	return nil
}

// attempt returns the ID of the attempt that caused e. It returns false if no attempt caused e.
func (o *oracle) attempt(e event) (id int, of bool) {
	if label, labelled := e.body.Record.Labels["attempt"]; labelled {
		id, err := strconv.Atoi(label)
		return id, err == nil
	}
	if id, of = o.verbs[e.body.Record.IdempotencyKey]; !of {
		id, of = o.verbs[e.body.Record.Reason]
	}
	return id, of
}

// keyDigest returns the digest of the attempt's idempotency key in hexadecimal, as it appears in
// the event.
func (a *attempt) keyDigest() string {
	key := a.storedKey()
	return hex.EncodeToString(key[:])
}

func (a *attempt) storedKey() storage.Hash {
	if a.key != "" {
		return ledger.IdempotencyKeyDigest(a.key)
	}
	return record.RunIdempotencyKeyDigest(a.kind, a.runID)
}

// receipts checks every receipt that was ever returned: it must verify, its event must be in the
// log, and its tree must be a prefix of the current tree.
func (o *oracle) receipts() error {
	head := o.node.ledger.Head()
	grown := make(map[uint64]bool) // sizes of earlier trees that were already checked
	for _, a := range o.acks {
		if a.seq >= head.Size {
			return fmt.Errorf("LOST: attempt %d was acknowledged as event %d, but the log has only %d", a.attempt.id, a.seq, head.Size)
		}
		if o.events[a.seq].hash != a.receipt.EventHash {
			return fmt.Errorf("LOST: attempt %d was acknowledged as event %d, %x, but that event is now %x",
				a.attempt.id, a.seq, a.receipt.EventHash, o.events[a.seq].hash)
		}
		if a.receipt.Proof == nil {
			continue
		}
		if err := a.receipt.Verify(o.verifier); err != nil {
			return fmt.Errorf("verifying the receipt of attempt %d, event %d: %w", a.attempt.id, a.seq, err)
		}
		size := a.receipt.Proof.Inclusion.TreeSize
		if grown[size] {
			continue
		}
		grown[size] = true
		if err := o.grownFrom(a.receipt.Proof.Checkpoint, head); err != nil {
			return fmt.Errorf("comparing the tree of the receipt of attempt %d, of size %d: %w", a.attempt.id, size, err)
		}
	}
	return nil
}

func (o *oracle) grownFrom(signed []byte, head *ledger.Head) error {
	c, err := proofs.OpenCheckpoint(signed, o.verifier)
	if err != nil {
		return err
	}
	path, err := o.node.ledger.Prover(o.ctx, head).ConsistencyProof(c.Size, head.Size)
	if err != nil {
		return err
	}
	return proofs.VerifyConsistency(c.Size, head.Size, c.Root, head.Root, path)
}

// once checks that each acknowledged attempt is in the log, at the seqs in its receipts. No attempt
// is allowed in the log more often than the ledger can have accepted it. For an attempt with an
// idempotency key, that is at most once. once also checks that every event except the first was
// caused by an attempt.
func (o *oracle) once() error {
	acked := make(map[int]map[uint64]bool)
	for _, a := range o.acks {
		if acked[a.attempt.id] == nil {
			acked[a.attempt.id] = make(map[uint64]bool)
		}
		acked[a.attempt.id][a.seq] = true
	}
	of := 0
	for _, a := range o.attempts {
		events := o.found[a.id]
		of += len(events)
		if err := o.onceOf(a, events, acked[a.id]); err != nil {
			return fmt.Errorf("attempt %d (%s %s, tried %d times, refused %d): %w", a.id, a.method, a.path, a.tries, a.refusals, err)
		}
	}
	if others := len(o.events) - of; others != 1 {
		return fmt.Errorf("%d events were not caused by any attempt; only the first may be", others)
	}
	return nil
}

func (o *oracle) onceOf(a *attempt, events []event, acked map[uint64]bool) error {
	most := (a.tries - a.refusals) * a.events()
	if a.keyed() {
		most = min(most, 1)
	}
	if len(events) > most {
		return fmt.Errorf("it is in the log too often; number of times: %d", len(events))
	}
	for _, e := range events {
		switch {
		case len(a.targets) > 0: // if a change affected only some targets, the response does not say which ones
			if !slices.Contains(a.targets, e.body.Record.RecordSeq) {
				return fmt.Errorf("event %d changes the state of event %d", e.seq, e.body.Record.RecordSeq)
			}
		case o.complete && !acked[e.seq]:
			return fmt.Errorf("event %d is in the log, but the attempt was never acknowledged", e.seq)
		}
		delete(acked, e.seq)
		if e.body.Kind != a.kind {
			return fmt.Errorf("event %d is of kind %s", e.seq, e.body.Kind)
		}
		if digest := hex.EncodeToString(a.digest[:]); a.isRecord() && e.body.Record.Digest != digest {
			return fmt.Errorf("event %d is about a different record", e.seq)
		}
	}
	for seq := range acked {
		// If the record was already redacted, the receipt is for the event that redacted it.
		if by, err := o.node.ledger.Reader().RedactingSeq(o.ctx, a.target); a.kind != record.KindContentRedacted || err != nil || by != seq {
			return fmt.Errorf("LOST: it was acknowledged as event %d, which is a different event", seq)
		}
	}
	if !a.keyed() {
		return nil
	}
	switch claim, err := o.node.ledger.Reader().KeyClaim(o.ctx, a.storedKey()); {
	case errors.Is(err, storage.ErrNotFound) && len(events) == 0:
		return nil
	case err != nil:
		return fmt.Errorf("reading its key: %w", err)
	case len(events) == 0 || claim.Seq != events[0].seq:
		return fmt.Errorf("its key is claimed by event %d", claim.Seq)
	}
	return nil
}

// contents checks that the store contains the content that records in the log need, byte for byte.
// Redacted content and content that no record needs must not be in the store.
func (o *oracle) contents() error {
	store := o.node.ledger.Reader()
	needed := make(map[string]bool)
	for _, e := range o.events {
		_, err := store.RedactingSeq(o.ctx, e.seq)
		if err != nil && !errors.Is(err, storage.ErrNotFound) {
			return err
		}
		for _, c := range e.body.Record.Content {
			needed[c.SHA256] = needed[c.SHA256] || err != nil
		}
	}
	for _, a := range o.attempts {
		if e := o.found[a.id]; a.kind == record.KindContentRedacted && len(e) > 0 {
			if _, err := store.RedactingSeq(o.ctx, a.target); err != nil {
				return fmt.Errorf("event %d should be redacted by event %d: %w", a.target, e[0].seq, err)
			}
		}
		for digest, posted := range a.contents {
			there, err := store.Content(o.ctx, digest)
			switch want := needed[hex.EncodeToString(digest[:])]; {
			case want && err != nil:
				return fmt.Errorf("LOST: content %x of attempt %d: %w", digest, a.id, err)
			case want && !bytes.Equal(there, posted):
				return fmt.Errorf("content %x of attempt %d is not what was posted", digest, a.id)
			case !want && !errors.Is(err, storage.ErrNotFound):
				return fmt.Errorf("content %x of attempt %d is stored, but no record needs it: %w", digest, a.id, err)
			}
		}
	}
	return nil
}

// most is the maximum number of acknowledged attempts that are submitted again. The same maximum
// applies to unacknowledged attempts. The latest attempts are chosen first.
const most = 4

// again submits some attempts a second time. An attempt that is in the log must be answered as a
// replay. Any other attempt must be appended, and must be answered as a replay the next time. At the
// end, the ledger must still accept a new record.
func (o *oracle) again() error {
	var acknowledged, unacknowledged int
	acked := make(map[int]bool)
	for _, a := range o.acks {
		acked[a.attempt.id] = true
	}
	for _, a := range slices.Backward(o.attempts) {
		if !a.isRecord() || !a.keyed() || a.tries == 0 {
			continue
		}
		count := &unacknowledged
		if acked[a.id] {
			count = &acknowledged
		}
		if *count++; *count > most {
			continue
		}
		if err := o.askAgain(a); err != nil {
			return fmt.Errorf("attempt %d: %w", a.id, err)
		}
	}
	ack, err := o.submit(o.records(1)[0])
	if err != nil || ack.Outcome != ledger.OutcomeAppended {
		return fmt.Errorf("the ledger accepts no more records: outcome %d: %w", ack.Outcome, err)
	}
	return nil
}

func (o *oracle) askAgain(a *attempt) error {
	want, first := ledger.OutcomeAppended, uint64(0)
	if events := o.found[a.id]; len(events) > 0 {
		want, first = ledger.OutcomeReplayed, events[0].seq
	}
	ack, err := o.submit(a)
	if err != nil {
		return err
	}
	if ack.Outcome != want || ack.KeyHolderSeq != first {
		return fmt.Errorf("outcome %d, event %d, but expected outcome %d, event %d", ack.Outcome, ack.KeyHolderSeq, want, first)
	}
	if ack, err = o.submit(a); err != nil || ack.Outcome != ledger.OutcomeReplayed {
		return fmt.Errorf("sent once more: outcome %d: %w", ack.Outcome, err)
	}
	return nil
}

// submit submits an attempt to the ledger as the API does.
func (o *oracle) submit(a *attempt) (ledger.Ack, error) {
	r, err := record.DefaultLimits().WithPayloadMemberSecret(o.node.ledger.PayloadMemberSecret()).ParseRecord(a.kind, a.body)
	if err != nil {
		return ledger.Ack{}, err
	}
	defer r.Release()
	s, err := o.node.ledger.PrepareRecord(r, ledger.AnonymousActor, a.key)
	if err != nil {
		return ledger.Ack{}, err
	}
	o.sent(a)
	ack, err := o.node.ledger.Submit(s)
	if err != nil || ack.Outcome != ledger.OutcomeAppended {
		return ack, err
	}
	receipt, err := proofs.NewReceipt(ack.Entry)
	if err == nil {
		o.acknowledged(a, receipt)
	}
	return ack, err
}

// index checks that the index gives the same answers as a new index that is built from the same log
// without faults. It also checks that the answers agree with values computed directly from the
// events.
func (o *oracle) index() error {
	follower, err := o.node.follow()
	if err != nil {
		return err
	}
	defer follower.Close()
	size := o.node.ledger.Head().Size
	if err := follower.WaitForSize(o.ctx, size); err != nil {
		return err
	}
	if err := o.naive(follower); err != nil {
		return fmt.Errorf("comparing the index with the events: %w", err)
	}
	undisturbed, err := freshAnswers(o.ctx, o.node.ledger.Reader(), size)
	if err != nil {
		return err
	}
	given, err := answers(o.ctx, follower, size)
	if err != nil {
		return err
	}
	for _, query := range slices.Sorted(maps.Keys(undisturbed)) {
		if given[query] != undisturbed[query] {
			return fmt.Errorf("the index answers %s with\n%.2000s\nbut an undisturbed index answers\n%.2000s", query, given[query], undisturbed[query])
		}
	}
	return nil
}
