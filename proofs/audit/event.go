package audit

import (
	"bytes"
	"regexp"
	"strings"
	"time"

	"colophon/ledger/event"
	"colophon/ledger/record"
	"colophon/ledger/record/pyjson"
	"colophon/proofs"
)

// decoded is the event at hand. It is valid until the next one is parsed.
type decoded struct {
	event.Body
	seq    uint64 // by its place in the log
	facts  Facts
	list   *record.SeqList // what it redacts; nil of one that redacts nothing
	failed bool            // one of its checks is a mismatch
}

// damaged is the damage of an event that breaks a rule.
func (e *decoded) damaged(format string, args ...any) error {
	return damaged(KindEvent, e.seq, format, args...)
}

// checkEvent checks the body of an event (spec: Event body), what it says, and what it names
// beside the log.
func (w *walk) checkEvent(seq uint64, body []byte) error {
	e := &w.event
	e.seq, e.facts, e.list, e.failed = seq, 0, nil, false
	if err := w.document.Parse(body); err != nil {
		return e.damaged("its body is not JSON: %v", err)
	}
	e.Read(w.document.Root())
	if err := w.checkFrame(e); err != nil {
		return err
	}
	if !bytes.Equal(e.Write(), body) {
		return w.notWritten(e)
	}
	if err := e.Check(); err != nil {
		return e.damaged("%v", err)
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

// notWritten is the damage of an event that is not what is written of what it says: it has
// members that its kind does not have, lacks some, or is not in canonical form.
func (w *walk) notWritten(e *decoded) error {
	var again pyjson.Document
	if err := again.Parse(e.Write()); err != nil {
		return e.damaged("what it says makes no event: %v", err)
	}
	nothing := func(string, pyjson.Value, pyjson.Value) bool { return false }
	pointer, says, makes, found := Difference(w.document.Root(), again.Root(), nothing)
	if !found {
		return e.damaged("its body is not in canonical form")
	}
	const wrong = "at %.200q it has %.100s, which no event of its kind has: of what it says that would be %.100s"
	if rest, isCheck := strings.CutPrefix(pointer, "/checks/"); isCheck {
		name, _, _ := strings.Cut(rest, "/")
		return checkDamaged(e.seq, unescapePointer.Replace(name), wrong, pointer, orNothing(says), orNothing(makes))
	}
	return e.damaged(wrong, pointer, orNothing(says), orNothing(makes))
}

// unescapePointer makes a part of a JSON pointer the name that it stands for (RFC 6901).
var unescapePointer = strings.NewReplacer("~1", "/", "~0", "~")

// checkFrame checks what every event says.
func (w *walk) checkFrame(e *decoded) error {
	if e.Seq != e.seq {
		return e.damaged("its seq is %d", e.Seq)
	}
	if event.Number(e.Version) != record.EventVersion {
		return e.damaged("its v is %.100s, known is %d", orNothing(e.Version), record.EventVersion)
	}
	if event.Number(e.Rules) != record.Rules {
		return e.damaged("its rules are %.100s, known are %d", orNothing(e.Rules), record.Rules)
	}
	facts, known := FactsOf(string(e.Kind))
	if !known {
		return e.damaged("its kind is %.100q, which is unknown", e.Kind)
	}
	e.facts = facts
	if len(w.actor) == 0 || !bytes.Equal(e.Actor, w.actor) {
		if !record.IsActor(e.Actor) {
			return e.damaged("its actor is %.400q, which no server can have named", e.Actor)
		}
		w.actor = append(w.actor[:0], e.Actor...)
	}
	if e.seq == 0 && w.ledger == "" {
		w.ledger = string(e.Ledger)
	}
	if string(e.Ledger) != w.ledger || e.seq == 0 && !ledgerName.Match(e.Ledger) {
		return e.damaged("its ledger is %.100q, this one is %.100q", e.Ledger, w.ledger)
	}
	return w.checkTime(e, e.TimeText)
}

// secondsOf is the part of an event's time that ends with the seconds.
const secondsOf = len("2006-01-02T15:04:05")

// checkTime checks form and order of the event's time. Times are of one length, so
// that they are in the order of their texts.
func (w *walk) checkTime(e *decoded, text []byte) error {
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
// microseconds (spec: Event body).
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
func (w *walk) checkDetail(e *decoded) error {
	if (e.Kind == record.LedgerCreated) != (e.seq == 0) {
		return e.damaged("its kind is %s; that of the first event, and of no other, is %s", e.Kind, record.LedgerCreated)
	}
	switch {
	case e.Kind == record.RecordRefused:
		return w.checkRefusal(e)
	case !e.Kind.IsRecord() && len(e.Checks) > 0:
		return e.damaged("it has checks, though it brings no record")
	case e.Kind == record.LedgerCreated:
		return w.checkCreated(e)
	case !e.Kind.IsRecord():
		return w.checkVerb(e)
	}
	if err := w.checkCommon(e); err != nil {
		return err
	}
	c := &claims{e: e}
	var err error
	switch e.Kind {
	case record.IPCRecord:
		err = w.checkIPC(c)
	case record.RunDAG:
		err = checkRunDAG(c)
	case record.CitationSet:
		err = checkCitations(c)
	case record.PathFingerprint:
		err = checkPath(c)
	}
	if err != nil {
		return err
	}
	return c.done()
}

// checkCreated checks that the first event creates the ledger with the origin. Whether
// its key is the one that is verified with, or those that follow are, the end shows.
func (w *walk) checkCreated(e *decoded) error {
	if origin := string(e.Created.Origin); origin != w.report.Checkpoint.Origin {
		return e.damaged("it creates a ledger of origin %.100q, the checkpoint's is %.100q", origin, w.report.Checkpoint.Origin)
	}
	first, err := proofs.ParseVerifier(string(e.Created.VerifierKey))
	if err != nil {
		return e.damaged("it creates a ledger with the key %.200q, which is none: %v", e.Created.VerifierKey, err)
	}
	w.history = proofs.NewKeyHistory(first)
	return nil
}
