package audit

import (
	"bytes"
	"regexp"
	"time"

	"colophon/ledger/record"
	"colophon/ledger/record/pyjson"
	"colophon/proofs"
)

// eventVersion is the version of event bodies (2.2).
const eventVersion = 1

// event is the event at hand. It is valid until the next one is parsed.
type event struct {
	seq    uint64
	kind   record.Kind
	facts  Facts
	checks pyjson.Value
	record pyjson.Value
	list   *record.SeqList // what it redacts; nil of one that redacts nothing
	failed bool            // one of its checks is a mismatch
}

// damaged is the damage of an event that breaks a rule.
func (e *event) damaged(format string, args ...any) error {
	return damaged(KindEvent, e.seq, format, args...)
}

// Places in eventMembers.
const (
	eventActor = iota
	eventChecks
	eventKind
	eventLedger
	eventRecord
	eventRules
	eventSeq
	eventTime
	eventV
)

// eventMembers are the members of every body (2.2).
var eventMembers = [...]member{
	eventActor: {"actor", text, always}, eventChecks: {"checks", object, always}, eventKind: {"kind", text, always},
	eventLedger: {"ledger", text, always}, eventRecord: {"record", object, always}, eventRules: {"rules", integer, always},
	eventSeq: {"seq", integer, always}, eventTime: {"time", text, always}, eventV: {"v", integer, always},
}

// checkEvent checks the body of an event (2.2), what it says, and what it names beside
// the log.
func (w *walk) checkEvent(seq uint64, body []byte) error {
	w.event = event{seq: seq}
	e := &w.event
	if err := w.document.Parse(body); err != nil {
		return e.damaged("its body is not JSON: %v", err)
	}
	root := w.document.Root()
	w.canonical = root.AppendCanonical(w.canonical[:0], pyjson.Compact)
	if !bytes.Equal(w.canonical, body) {
		return e.damaged("its body is not in canonical form")
	}
	if pointer, found := root.LoneSurrogate(); found {
		return e.damaged("it has a lone surrogate at %q", pointer)
	}
	var m [len(eventMembers)]pyjson.Value
	if err := e.members("its body", root, eventMembers[:], m[:]); err != nil {
		return err
	}
	e.checks, e.record = m[eventChecks], m[eventRecord]
	if err := w.checkFrame(e, &m); err != nil {
		return err
	}
	if err := w.checkDetail(e); err != nil {
		return err
	}
	w.tally.add(e, w.time)
	if w.stored != nil {
		if err := w.checkStored(e, body); err != nil {
			return err
		}
	}
	return w.past.Add(e.facts)
}

// checkFrame checks what every event says.
func (w *walk) checkFrame(e *event, m *[len(eventMembers)]pyjson.Value) error {
	if n, ok := count(m[eventSeq]); !ok || n != e.seq {
		return e.damaged("its seq is %.100s", m[eventSeq].Raw())
	}
	if n, ok := count(m[eventV]); !ok || n != eventVersion {
		return e.damaged("its v is %.100s, known is %d", m[eventV].Raw(), eventVersion)
	}
	if n, ok := count(m[eventRules]); !ok || n != record.Rules {
		return e.damaged("its rules are %.100s, known are %d", m[eventRules].Raw(), record.Rules)
	}
	facts, known := FactsOf(string(m[eventKind].Text()))
	if !known {
		return e.damaged("its kind is %.100q, which is unknown", m[eventKind].Text())
	}
	e.kind, e.facts = facts.Kind(), facts
	if actor := m[eventActor].Text(); len(w.actor) == 0 || !bytes.Equal(actor, w.actor) {
		if !record.IsActor(actor) {
			return e.damaged("its actor is %.400q, which no server can have named", actor)
		}
		w.actor = append(w.actor[:0], actor...)
	}
	ledger := m[eventLedger].Text()
	if e.seq == 0 && w.ledger == "" {
		w.ledger = string(ledger)
	}
	if !bytes.Equal(ledger, []byte(w.ledger)) || e.seq == 0 && !ledgerName.Match(ledger) {
		return e.damaged("its ledger is %.100q, this one is %.100q", ledger, w.ledger)
	}
	return w.checkTime(e, m[eventTime].Text())
}

// secondsOf is the part of an event's time that ends with the seconds.
const secondsOf = len("2006-01-02T15:04:05")

// checkTime checks form and order of the event's time. Times are of one length, so
// that they are in the order of their texts.
func (w *walk) checkTime(e *event, text []byte) error {
	if !isTime(text, w.time) {
		return e.damaged("its time %.100q is not RFC 3339 in UTC with microseconds", text)
	}
	if bytes.Compare(text, w.time) < 0 {
		return e.damaged("its time %s is before the previous event's, %s", text, w.time)
	}
	if len(w.latest) > 0 && bytes.Compare(text, w.latest) > 0 {
		return e.damaged("its time is %s, and this machine's clock says %s: the server's clock was wrong when it recorded that, or this machine's is",
			text, w.options.Now.UTC().Format(record.TimeLayout))
	}
	w.time = append(w.time[:0], text...)
	return nil
}

// maxAhead is how far the clock of a server may be ahead of the auditor's.
const maxAhead = 24 * time.Hour

// ledgerName is what a ledger can be called.
var ledgerName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,63}$`)

// IsTime reports whether a text is a time as events have it: RFC 3339 in UTC with
// microseconds (2.2).
func IsTime(text string) bool { return isTime([]byte(text), nil) }

// isTime is IsTime of an event that comes after another, whose time is one: most come
// within the same second, which is known to be one then.
func isTime(text, before []byte) bool {
	if len(text) != len(record.TimeLayout) || text[secondsOf] != '.' || text[len(text)-1] != 'Z' {
		return false
	}
	for _, digit := range text[secondsOf+1 : len(text)-1] {
		if digit < '0' || digit > '9' {
			return false
		}
	}
	if len(before) == len(text) && bytes.Equal(text[:secondsOf], before[:secondsOf]) {
		return true
	}
	_, err := time.Parse(record.TimeLayout, string(text))
	return err == nil
}

// checkDetail checks the record of an event, by its kind, and that its checks follow
// from it.
func (w *walk) checkDetail(e *event) error {
	if (e.kind == record.LedgerCreated) != (e.seq == 0) {
		return e.damaged("its kind is %s; that of the first event, and of no other, is %s", e.kind, record.LedgerCreated)
	}
	switch e.kind {
	case record.IPCRecord:
		return w.checkIPC(e)
	case record.RunDAG:
		return w.checkRunDAG(e)
	case record.CitationSet:
		return w.checkCitations(e)
	case record.PathFingerprint:
		return w.checkPath(e)
	case record.RecordRefused:
		return w.checkRefusal(e)
	case record.LedgerCreated:
		return w.checkCreated(e)
	}
	return w.checkVerb(e)
}

// createdMembers are the members of a ledger_created event's record.
var createdMembers = [...]member{{"origin", text, always}, {"verifier_key", text, always}}

// checkCreated checks that the first event creates the ledger with the origin. Whether
// its key is the one that is verified with, or those that follow are, the end shows.
func (w *walk) checkCreated(e *event) error {
	var m [len(createdMembers)]pyjson.Value
	if err := e.members("its record", e.record, createdMembers[:], m[:]); err != nil {
		return err
	}
	if err := e.noChecks(); err != nil {
		return err
	}
	if origin := string(m[0].Text()); origin != w.report.Checkpoint.Origin {
		return e.damaged("it creates a ledger of origin %.100q, the checkpoint's is %.100q", origin, w.report.Checkpoint.Origin)
	}
	first, err := proofs.ParseVerifier(string(m[1].Text()))
	if err != nil {
		return e.damaged("it creates a ledger with the key %.200q, which is none: %v", m[1].Text(), err)
	}
	w.history = proofs.NewKeyHistory(first)
	return nil
}

// noChecks checks that an event that is not about a record's claims has no checks.
func (e *event) noChecks() error {
	if e.checks.Len() > 0 {
		return e.damaged("it has checks, though it brings no record")
	}
	return nil
}
