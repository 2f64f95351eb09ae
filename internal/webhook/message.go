package webhook

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"colophon/client/wire"
	"colophon/ledger/event"
	"colophon/ledger/index"
	"colophon/ledger/index/citations"
	"colophon/ledger/index/producers"
	"colophon/ledger/query/facts"
	"colophon/ledger/record"
	"colophon/storage"
)

// Message is the JSON body of a webhook message.
type Message struct {
	Type      string      `json:"type"`      // "colophon." followed by a MessageType
	Timestamp string      `json:"timestamp"` // time of the event, RFC 3339
	Data      MessageData `json:"data"`
	id        string
	kind      MessageType
	cause     string
}

// MessageData describes what a webhook message reports about a ledger. Members that do not apply
// are absent.
type MessageData struct {
	Ledger    string `json:"ledger"`               // name of the ledger
	Seq       uint64 `json:"seq"`                  // seq of the event, or the tree size if the type is trouble
	Kind      string `json:"kind,omitempty"`       // kind of the event
	RunID     string `json:"run_id,omitempty"`     // run_id of the event's record
	EventHash string `json:"event_hash,omitempty"` // 64 hexadecimal digits
	Text      string `json:"text"`                 // one human-readable sentence

	FailedChecks       []string `json:"fields,omitempty"`     // claims that are wrong, or rules that the verdict breaks
	Cause              string   `json:"cause,omitempty"`      // cause of the drift or divergence
	ComparedSeq        uint64   `json:"against,omitempty"`    // event that this event was compared with
	Variables          []string `json:"variables,omitempty"`  // names of the variables that differ
	Stage              string   `json:"stage,omitempty"`      // first diverging stage
	Producer           string   `json:"producer,omitempty"`   // producer whose sequence numbers have a gap
	MissingRange       []uint64 `json:"missing,omitempty"`    // first and last skipped sequence number
	SourceID           string   `json:"source_id,omitempty"`  // source whose chunks were superseded
	StaleSets          []uint64 `json:"stale_sets,omitempty"` // citation sets that cite superseded chunks of the source; at most 100
	StaleSetsTruncated bool     `json:"more,omitempty"`       // stale_sets is incomplete
}

// maxStale is the maximum number of stale sets in a message.
const maxStale = 100

func newMessage(e *event.Event, kind MessageType, text string) *Message {
	m := &Message{
		Type: "colophon." + string(kind), Timestamp: string(e.TimeText), kind: kind,
		Data: MessageData{Ledger: string(e.Ledger), Seq: e.Seq, Kind: string(e.Kind), RunID: string(e.RunID()), EventHash: hex.EncodeToString(e.Hash[:]), Text: text},
	}
	m.id = messageID(string(kind), m.Data.EventHash)
	return m
}

// messageID derives a message's ID from the values that identify the message, so that the ID is the same
// each time the message is sent.
func messageID(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return "msg_" + hex.EncodeToString(h.Sum(nil)[:16])
}

// messagesOf returns the messages about one event, which must be the last one in view.
func messagesOf(ctx context.Context, view *index.View, e *event.Event) (list []*Message, err error) {
	list = checkMessages(e)
	switch e.Kind {
	case record.KindIPCRecord, record.KindRunDAG:
		m, err := driftMessage(ctx, view, e)
		if err != nil {
			return nil, err
		}
		if m != nil {
			list = append(list, m)
		}
	case record.KindCitationSet, record.KindSourceRegistered:
		stale, err := staleMessages(ctx, view, e)
		if err != nil {
			return nil, err
		}
		list = append(list, stale...)
	}
	gap, err := gapMessage(view, e)
	if err != nil {
		return nil, err
	}
	if gap != nil {
		list = append(list, gap)
	}
	return list, nil
}

// checkMessages returns one message if any claimed hashes of the event do not match, and another one if
// any of its verdicts are inconsistent.
func checkMessages(e *event.Event) (list []*Message) {
	var mismatches, broken []string
	for name, check := range e.Checks.Members() {
		switch record.CheckResult(check.Member("result").Text()) {
		case record.ResultMismatch:
			mismatches = append(mismatches, string(name.Text()))
		case record.ResultInconsistent:
			broken = append(broken, string(name.Text()))
		}
	}
	if len(mismatches) > 0 {
		verb := "was recorded"
		if e.Kind == record.KindRecordRefused {
			verb = "was refused"
		}
		m := newMessage(e, TypeMismatch, fmt.Sprintf("A record %s: its content does not match the claimed hash.", verb))
		m.Data.FailedChecks = mismatches
		list = append(list, m)
	}
	if len(broken) > 0 {
		m := newMessage(e, TypeInconsistentVerdict, "A run-DAG's verdict contradicts the numbers in the run-DAG.")
		m.Data.FailedChecks = broken
		list = append(list, m)
	}
	return list
}

// driftMessage returns a message if the event's output differs from the output of the previous run, or if
// the event is a run-DAG that diverges from the previous one. It returns nil if there is nothing to
// report.
func driftMessage(ctx context.Context, view *index.View, e *event.Event) (*Message, error) {
	facts, err := facts.DeriveMembers(ctx, view, e.Seq, e.Kind)
	if err != nil {
		return nil, fmt.Errorf("comparing event %d with the previous run: %w", e.Seq, err)
	}
	switch {
	case facts.Drift != nil && facts.Drift.OutputChanged:
		d := facts.Drift
		m := newMessage(e, TypeDrift, fmt.Sprintf("The output differs from the output of event %d, the previous run with the same input; the cause is %s.", d.PreviousSeq, d.Cause))
		m.cause = string(d.Cause)
		m.Data.Cause, m.Data.ComparedSeq, m.Data.Variables = m.cause, d.PreviousSeq, d.Variables
		return m, nil
	case facts.Divergence != nil && facts.Divergence.Cause != wire.DivergenceCauseIdentical:
		d := facts.Divergence
		stage := "outcome" // used if no stage differs
		if d.FirstDivergingStage != nil {
			stage = *d.FirstDivergingStage
		}
		m := newMessage(e, TypeDivergence, fmt.Sprintf("The run diverges from event %d, the previous run for the same question, starting at stage %s; the cause is %s.", d.PreviousSeq, stage, d.Cause))
		m.cause = string(d.Cause)
		m.Data.Cause, m.Data.ComparedSeq, m.Data.Stage, m.Data.Variables = m.cause, d.PreviousSeq, stage, d.DifferingDimensions
		return m, nil
	}
	return nil, nil
}

// staleMessages returns one message for each source whose chunks were superseded by event e.
func staleMessages(ctx context.Context, view *index.View, e *event.Event) (list []*Message, err error) {
	for _, source := range sourcesOf(e) {
		// The most recently superseded chunks come first.
		rows, next, err := citations.ListStaleCitationsOfSource(ctx, view, source, index.PageRequest{Limit: maxStale})
		if err != nil {
			return nil, fmt.Errorf("reading the stale citations of a source: %w", err)
		}
		var sets []uint64
		more := next != nil
		for _, row := range rows {
			if row.SupersededBy != e.Seq {
				more = false
				break
			}
			sets = append(sets, row.Seq)
		}
		if len(sets) == 0 {
			continue
		}
		m := newMessage(e, TypeStaleCitation, fmt.Sprintf("Chunks of the source %.100q were superseded, and %d citation sets cite them.", source, len(sets)))
		if more {
			m.Data.Text = fmt.Sprintf("Chunks of the source %.100q were superseded, and at least %d citation sets cite them.", source, len(sets))
		}
		m.id = messageID(string(TypeStaleCitation), m.Data.EventHash, source)
		m.Data.SourceID, m.Data.StaleSets, m.Data.StaleSetsTruncated = source, sets, more
		list = append(list, m)
	}
	return list, nil
}

// sourcesOf returns the IDs of the sources that an event cites or registers, without duplicates.
func sourcesOf(e *event.Event) (list []string) {
	if e.Kind == record.KindSourceRegistered {
		return []string{string(e.Record.Member("source_id").Text())}
	}
	seen := make(map[string]bool)
	for _, c := range e.CitationSet().Citations {
		if id := string(c.SourceID); !seen[id] {
			seen[id] = true
			list = append(list, id)
		}
	}
	return list
}

// gapMessage returns a message if the producer of a record skipped sequence numbers, and nil
// otherwise. The index must still contain the state from before the event.
func gapMessage(view *index.View, e *event.Event) (*Message, error) {
	id, number := e.Producer()
	if id == nil || number < 2 || e.Seq == 0 {
		return nil, nil
	}
	size := view.Size()
	view.SetSize(e.Seq)
	before, _, _, _, err := producers.Get(view, string(id), index.PageRequest{Limit: 1})
	view.SetSize(size)
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return nil, fmt.Errorf("reading the sequence numbers of a producer: %w", err)
	}
	first := before.HighestNumber + 1
	if number <= first {
		return nil, nil
	}
	m := newMessage(e, TypeSequenceGap, fmt.Sprintf("Producer %.100q skipped the sequence numbers %d to %d.", id, first, number-1))
	m.Data.Producer, m.Data.MissingRange = string(id), []uint64{first, number - 1}
	return m, nil
}

// troubleMessage returns the message about an index that has stopped or fallen behind. since is when the
// trouble began, and text describes it.
func troubleMessage(ledger string, size uint64, since time.Time, text string) *Message {
	stamp := since.UTC().Format(time.RFC3339Nano)
	return &Message{Type: "colophon." + string(TypeIndexTrouble), Timestamp: stamp, kind: TypeIndexTrouble, id: messageID(string(TypeIndexTrouble), ledger, stamp),
		Data: MessageData{Ledger: ledger, Seq: size, Text: text}}
}
