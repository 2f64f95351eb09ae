package pack

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"colophon/ledger/event"
	"colophon/ledger/record"
	"colophon/ledger/record/pyjson"
	"colophon/proofs"
	"colophon/proofs/audit/recompute"
)

// Report counts what Verify has verified.
type Report struct {
	// Checkpoint covers all events of the pack.
	Checkpoint          proofs.Checkpoint
	Events              int // number of verified events
	Links               int // number of verified chain links between consecutive events in the pack
	ContentCount        int // number of verified pieces of content, counted once per record that names them
	RedactedRecords     int // number of records whose content was erased, as an event in the pack confirms
	MissingContentCount int // number of missing pieces of content that records refer to
	RecomputedRecords   int // number of records whose hashes were recomputed, which requires all of their content
	// ClaimedChecks counts the checks of recomputed records whose result is "claimed", which means that
	// the pack lacks the content needed to compute the hash.
	ClaimedChecks int
	// UnconfirmableRecords counts the recomputed records whose cache key and digest could not be checked,
	// because these hashes cover texts that are too long for an event.
	UnconfirmableRecords int
}

// verification holds the state of one call to Verify.
type verification struct {
	pack   *Pack
	report Report
	events map[uint64]event.Event // keyed by seq
	last   proofs.Hash            // event_hash of the previous event
	used   map[string]bool        // digests of the content that records name, and that has this digest

	rebuilder recompute.Rebuilder
}

// ErrHashMismatch means that the hashes in an event differ from the hashes of its content.
var ErrHashMismatch = errors.New("pack: hashes do not match the content")

// Verify verifies the pack against the log's keys. It checks the signature of the checkpoint, the
// inclusion proof and the form of each event, and the chain links between events with consecutive
// seqs. It compares the content with the digests in the events. If the pack has all content of a
// record, Verify also rebuilds the record (spec: Rebuilding a record). An error that concerns an
// event states the event's seq. Errors wrap ErrContentMismatch, ErrHashMismatch, or an error that
// Receipt.Verify can return.
func (p *Pack) Verify(verifiers ...*proofs.Verifier) (Report, error) {
	v := &verification{pack: p, events: make(map[uint64]event.Event), used: make(map[string]bool)}
	var err error
	if v.report.Checkpoint, err = proofs.OpenCheckpoint([]byte(p.Checkpoint), verifiers...); err != nil {
		return Report{}, err
	}
	if err := p.checkForm(); err != nil {
		return Report{}, err
	}
	for i := range p.Events {
		if err := v.event(i); err != nil {
			return Report{}, fmt.Errorf("verifying event %d: %w", p.Events[i].Seq, err)
		}
	}
	for i := range p.Events {
		if err := v.content(&p.Events[i]); err != nil {
			return Report{}, fmt.Errorf("verifying the content of event %d: %w", p.Events[i].Seq, err)
		}
	}
	for digest := range p.Contents {
		if !v.used[digest] {
			return Report{}, fmt.Errorf("%w: no record names the content %.64s", ErrContentMismatch, digest)
		}
	}
	return v.report, nil
}

// checkForm checks the format of the members that the page shows although no proof covers them, so
// that a forger cannot put arbitrary text there.
func (p *Pack) checkForm() error {
	if _, err := time.Parse("2006-01-02T15:04:05Z", p.ExportedAt); err != nil || len(p.ExportedAt) != len("2006-01-02T15:04:05Z") {
		return fmt.Errorf(`%w: the member "exported" is %.100q, but must be a time such as 2006-01-02T15:04:05Z`, proofs.ErrMalformed, p.ExportedAt)
	}
	if p.ContentStatus != ContentStatusIncluded && p.ContentStatus != ContentStatusOmitted && p.ContentStatus != ContentStatusForbidden {
		return fmt.Errorf(`%w: the member "content" is %.100q, but must be "included", "left out", or "no right"`, proofs.ErrMalformed, p.ContentStatus)
	}
	if len(p.Events) == 0 {
		return fmt.Errorf("%w: the audit pack has no records", proofs.ErrMalformed)
	}
	return nil
}

// event verifies the i-th event, except for its content.
func (v *verification) event(i int) error {
	r := &v.pack.Events[i]
	path := make([]proofs.Hash, len(r.InclusionHashes))
	for j, digits := range r.InclusionHashes {
		var err error
		if path[j], err = proofs.ParseHash(digits); err != nil {
			return err
		}
	}
	checkpoint := v.report.Checkpoint
	if err := proofs.VerifyInclusion(proofs.LeafHash(r.Entry), r.Seq, checkpoint.Size, path, checkpoint.Root); err != nil {
		return err
	}
	receipt, err := proofs.NewReceipt(r.Entry)
	switch {
	case err != nil:
		return err
	case receipt.Seq != r.Seq:
		return fmt.Errorf("%w: the entry contains a different event, %d", proofs.ErrFieldMismatch, receipt.Seq)
	case receipt.Ledger != v.pack.Ledger:
		return fmt.Errorf("%w: the pack is for ledger %.100q, but the event belongs to ledger %.100q", proofs.ErrFieldMismatch, v.pack.Ledger, receipt.Ledger)
	}
	if err := v.link(i, receipt); err != nil {
		return err
	}
	var document pyjson.Document
	if err := document.Parse(r.Entry[proofs.HashSize:]); err != nil {
		return fmt.Errorf("%w: parsing the event: %w", proofs.ErrMalformed, err)
	}
	e := event.Read(document.Root())
	if err := checkCommonMembers(&e); err != nil {
		return err
	}
	v.events[r.Seq] = e
	v.report.Events++
	return nil
}

// checkCommonMembers checks the members on which the check of an event's hashes depends. An event
// of an unknown version or kind would otherwise verify although its hashes are unchecked.
func checkCommonMembers(e *event.Event) error {
	const layout = "2006-01-02T15:04:05.000000Z"
	at, err := time.Parse(layout, string(e.TimeText))
	switch {
	case event.Uint64OrZero(e.Version) != record.EventVersion:
		return fmt.Errorf(`%w: the event's "v" is %.100s, but this program supports only %d`, proofs.ErrMalformed, event.FormatValue(e.Version), record.EventVersion)
	case event.Uint64OrZero(e.Rules) != record.RulesVersion:
		return fmt.Errorf(`%w: the event's "rules" is %.100s, but this program supports only %d`, proofs.ErrMalformed, event.FormatValue(e.Rules), record.RulesVersion)
	case !e.Kind.IsKnown():
		return fmt.Errorf("%w: the event's kind is %.100q, which is unknown", proofs.ErrMalformed, e.Kind)
	case err != nil || at.Format(layout) != string(e.TimeText):
		return fmt.Errorf("%w: the event's time is %.100q, which is not an RFC 3339 time in UTC with microseconds", proofs.ErrMalformed, e.TimeText)
	}
	return nil
}

// link checks that r comes after the previous event and, if the two events are consecutive, that
// the chain link between them is valid.
func (v *verification) link(i int, r *proofs.Receipt) error {
	before, neighbour := v.last, r.Seq == 0
	v.last = r.EventHash
	if i > 0 {
		last := v.pack.Events[i-1].Seq
		if last >= r.Seq {
			return fmt.Errorf("%w: the record follows event %d, but the records must be in strictly ascending order of seq", proofs.ErrMalformed, last)
		}
		neighbour = last+1 == r.Seq
	}
	if !neighbour {
		return nil
	}
	if r.PrevEventHash != before {
		return fmt.Errorf("%w: the record's prev_event_hash is %x, but the hash of the previous event is %x", proofs.ErrChainLink, r.PrevEventHash, before)
	}
	v.report.Links++
	return nil
}

// maxRecordContent is the maximum total size, in bytes, of the content from which one record is
// rebuilt. A record can name the same piece many times, and rebuilding the record copies the piece
// each time.
const maxRecordContent = 64 << 20

// content checks the content of the event in r. If r is marked as redacted, it instead checks that
// an event in the pack erased the content.
func (v *verification) content(r *PackedEvent) error {
	e := v.events[r.Seq]
	if r.RedactedBy != nil {
		v.report.RedactedRecords++
		return v.redaction(r.Seq, *r.RedactedBy)
	}
	content, missing, size := make(map[string][]byte), v.report.MissingContentCount, 0
	for named := range e.Contents() {
		digest := hex.EncodeToString(named.Digest[:])
		kept, found := v.pack.Contents[digest]
		if !found {
			v.report.MissingContentCount++
			continue
		}
		if !v.used[digest] {
			if sum := sha256.Sum256(kept); sum != named.Digest {
				return fmt.Errorf("%w: content %.100q has the digest %x, but the event gives the digest %s", ErrContentMismatch, named.Name, sum, digest)
			}
			v.used[digest] = true
		}
		if uint64(len(kept)) != named.Size {
			return fmt.Errorf("%w: content %.100q has %d bytes, but the event gives the size %d", ErrContentMismatch, named.Name, len(kept), named.Size)
		}
		if size += len(kept); size > maxRecordContent {
			return fmt.Errorf("%w: the content has more than %d bytes in total, counting each piece as often as the event names it", proofs.ErrMalformed, maxRecordContent)
		}
		v.report.ContentCount++
		content[string(named.Name)] = kept
	}
	if v.report.MissingContentCount > missing {
		return nil
	}
	return v.recompute(r, content)
}

// recompute rebuilds the record in the event, if there is one, and compares the result with the
// event. content must contain all of the record's content.
func (v *verification) recompute(r *PackedEvent, content map[string][]byte) error {
	err := v.rebuilder.Check(r.Entry[proofs.HashSize:], func(name string, _ proofs.Hash) ([]byte, error) { return content[name], nil })
	if wrong := (*recompute.Error)(nil); errors.As(err, &wrong) {
		return fmt.Errorf("%w: %w", ErrHashMismatch, wrong)
	}
	v.report.RecomputedRecords, v.report.UnconfirmableRecords = int(v.rebuilder.RebuiltRecords), int(v.rebuilder.UnconfirmableRecords)
	if err == nil {
		e := v.events[r.Seq]
		v.report.ClaimedChecks += e.CountChecks(record.ResultClaimed)
	}
	return err
}

// redaction checks that the pack contains the event whose seq is by, and that this event erased the
// content of event seq.
func (v *verification) redaction(seq, by uint64) error {
	e, found := v.events[by]
	if !found {
		return fmt.Errorf("%w: the pack says that event %d erased the content, but does not contain that event", ErrContentMismatch, by)
	}
	if seqs := e.Redaction().Seqs; e.Kind != record.KindContentRedacted || seqs == nil || !seqs.Has(seq) {
		return fmt.Errorf("%w: the pack says that event %d erased the content, but that event does not redact the record", ErrContentMismatch, by)
	}
	return nil
}
