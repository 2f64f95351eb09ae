package audit

import (
	"bytes"
	"errors"
	"strings"
	"time"

	"colophon/ledger/event"
	"colophon/ledger/record"
	"colophon/ledger/record/moment"
	"colophon/ledger/record/pyjson"
	"colophon/proofs/audit/recompute"
)

// maxAhead is the maximum amount of time by which a server's clock may be ahead of the auditor's
// clock.
const maxAhead = 24 * time.Hour

// eventCheck checks the event in each entry: its form, the members that every event has, and what
// it states about its record.
type eventCheck struct {
	signers *signerCheck
	uses    *useCheck
	actions *actionCheck

	ledger string    // ledger name that the events contain; "" before the first event
	now    time.Time // see Options.Now
	latest []byte    // the latest time that an event may have; empty if there is no limit
	time   []byte    // time of the last event
	actor  []byte    // actor of the last event
	// members is the commitment in the first event to the payload-member secret. It is "" if
	// the first event contains no commitment.
	members string

	document pyjson.Document
	body     event.Body
	checker  recompute.Checker
}

func newEventCheck(options Options, signers *signerCheck, uses *useCheck, actions *actionCheck) *eventCheck {
	c := &eventCheck{signers: signers, uses: uses, actions: actions, ledger: options.Ledger, now: options.Now}
	if !c.now.IsZero() {
		c.latest = c.now.Add(maxAhead).UTC().AppendFormat(nil, moment.Layout)
	}
	return c
}

// check checks the event at seq (spec: Event body). The returned event is valid until the next call
// to check.
func (c *eventCheck) check(seq uint64, body []byte) (*event.Body, error) {
	if err := c.document.Parse(body); err != nil {
		return nil, damaged(DamageKindEvent, seq, "the event's body is not JSON: %v", err)
	}
	e := &c.body
	e.Decode(c.document.Root())
	if e.Seq != seq {
		return nil, damaged(DamageKindEvent, seq, "the event's seq is %d, which is not the entry's number", e.Seq)
	}
	if err := c.checkCommonMembers(e); err != nil {
		return nil, err
	}
	if !bytes.Equal(e.Encode(), body) {
		return nil, notCanonical(e, c.document.Root())
	}
	if err := e.Check(); err != nil {
		return nil, damaged(DamageKindEvent, seq, "%v", err)
	}
	if (e.Kind == record.KindLedgerCreated) != (seq == 0) {
		return nil, damaged(DamageKindEvent, seq, "the event's kind is %s, but the first event, and only the first, must have the kind %s", e.Kind, record.KindLedgerCreated)
	}
	if err := c.checker.Check(e); err != nil {
		return nil, eventDamage(seq, err)
	}
	if err := c.uses.event(e); err != nil {
		return nil, err
	}
	if err := c.byKind(e); err != nil {
		return nil, err
	}
	c.uses.tally.add(e)
	return e, nil
}

// checkCommonMembers checks the members that every event has.
func (c *eventCheck) checkCommonMembers(e *event.Body) error {
	if event.Uint64OrZero(e.Version) != record.EventVersion {
		return damaged(DamageKindEvent, e.Seq, `the event's "v" is %.100s, but this program supports only %d`, event.FormatValue(e.Version), record.EventVersion)
	}
	if event.Uint64OrZero(e.Rules) != record.RulesVersion {
		return damaged(DamageKindEvent, e.Seq, `the event's "rules" is %.100s, but this program supports only %d`, event.FormatValue(e.Rules), record.RulesVersion)
	}
	if !e.Kind.IsKnown() {
		return damaged(DamageKindEvent, e.Seq, "the event's kind is %.100q, which is unknown", e.Kind)
	}
	if len(c.actor) == 0 || !bytes.Equal(e.Actor, c.actor) {
		if !record.IsActorName(e.Actor) {
			return damaged(DamageKindEvent, e.Seq, "the event's actor is %.400q, which is not a valid actor name", e.Actor)
		}
		c.actor = append(c.actor[:0], e.Actor...)
	}
	if e.Seq == 0 && c.ledger == "" {
		c.ledger = string(e.Ledger)
	}
	if string(e.Ledger) != c.ledger || e.Seq == 0 && !record.IsLedgerName(e.Ledger) {
		return damaged(DamageKindEvent, e.Seq, "the event's ledger is %.100q, but the log's ledger is %.100q", e.Ledger, c.ledger)
	}
	return c.checkTime(e)
}

// checkTime checks the format of the event's time. It also checks that the time is not before the
// previous event's time or after c.latest. All times have the same length, so they can be compared
// as text.
func (c *eventCheck) checkTime(e *event.Body) error {
	text := e.TimeText
	if !c.isSameSecond(text) && !moment.IsEventTime(text) {
		return damaged(DamageKindEvent, e.Seq, "the event's time %.100q is not an RFC 3339 time in UTC with microseconds", text)
	}
	if bytes.Compare(text, c.time) < 0 {
		return damaged(DamageKindEvent, e.Seq, "the event's time %s is before the previous event's time %s", text, c.time)
	}
	if len(c.latest) > 0 && bytes.Compare(text, c.latest) > 0 {
		return damaged(DamageKindEvent, e.Seq, "the event's time is %s, but this machine's clock shows %s: either the server's clock was wrong then, or this machine's clock is wrong now",
			text, c.now.UTC().Format(moment.Layout))
	}
	c.time = append(c.time[:0], text...)
	return nil
}

// isSameSecond reports whether text is a time in the same second as the last event's time. This is
// true for most events, and checking it is faster than parsing the time (BenchmarkExtend).
func (c *eventCheck) isSameSecond(text []byte) bool {
	const micros = len("2006-01-02T15:04:05.")
	if len(text) != len(moment.Layout) || len(c.time) != len(text) || !bytes.Equal(text[:micros], c.time[:micros]) {
		return false
	}
	for _, digit := range text[micros : len(text)-1] {
		if digit < '0' || digit > '9' {
			return false
		}
	}
	return text[len(text)-1] == 'Z'
}

// byKind checks the members that only events of the event's kind have.
func (c *eventCheck) byKind(e *event.Body) error {
	switch e.Kind {
	case record.KindLedgerCreated:
		c.members = string(e.LedgerCreation.MemberSecretHash)
		return c.signers.created(e)
	case record.KindIPCRecord:
		return c.payloadMembers(e)
	case record.KindKeyRotated:
		key := record.RotationIdempotencyKeyDigest(c.signers.history.NumChanges() + 1)
		if e.Common.IdempotencyKeyDigest == nil || *e.Common.IdempotencyKeyDigest != key {
			return damaged(DamageKindKey, e.Seq, "the event rotates a key, but does not claim the idempotency key of that rotation, %x", key)
		}
		return c.signers.rotated(e)
	case record.KindContentRedacted:
		return c.actions.redaction(e)
	case record.KindSourceRegistered, record.KindSourceRevoked:
		return c.uses.source(e)
	case record.KindPathValidated:
		return c.actions.validation(e)
	case record.KindNote:
		return c.actions.note(e)
	case record.KindRecordStateChanged:
		if err := c.actions.stateChange(e); err != nil {
			return err
		}
		return c.uses.state(e)
	}
	return nil
}

// payloadMembers checks whether an IPC record has digests of payload members. If the ledger has a
// secret for the digests, every record with a payload must have them. If the ledger has no secret,
// records must not have them.
func (c *eventCheck) payloadMembers(e *event.Body) error {
	switch has := e.IPC.MemberDigests != nil; {
	case has && c.members == "":
		return checkDamaged(e.Seq, "payload_members", "the event has digests of payload members, but the first event does not commit to a payload-member secret")
	case !has && c.members != "" && e.IPC.HasPayload:
		return checkDamaged(e.Seq, "payload_members", "the event has no digests of payload members, but the first event commits to a payload-member secret")
	}
	return nil
}

// notCanonical returns the damage to report for an event whose body changes when its fields are
// encoded again. Such a body contains unexpected members, lacks members, or is not in canonical
// form.
func notCanonical(e *event.Body, body pyjson.Value) error {
	var again pyjson.Document
	if err := again.Parse(e.Encode()); err != nil {
		return damaged(DamageKindEvent, e.Seq, "cannot encode the event's fields: %v", err)
	}
	pointer, has, makes, found := event.FirstDifference(body, again.Root(), nil)
	if !found {
		return damaged(DamageKindEvent, e.Seq, "the event's body is not in canonical form")
	}
	const wrong = "at %.200q, the event has %.100s, but encoding its fields again gives %.100s"
	if rest, isCheck := strings.CutPrefix(pointer, "/checks/"); isCheck {
		name, _, _ := strings.Cut(rest, "/")
		return checkDamaged(e.Seq, unescapePointer.Replace(name), wrong, pointer, event.FormatValue(has), event.FormatValue(makes))
	}
	return damaged(DamageKindEvent, e.Seq, wrong, pointer, event.FormatValue(has), event.FormatValue(makes))
}

// unescapePointer decodes one reference token of a JSON pointer (RFC 6901).
var unescapePointer = strings.NewReplacer("~1", "/", "~0", "~")

// eventDamage converts an error from package recompute to a *Damage of the event at seq. It returns
// any other error unchanged.
func eventDamage(seq uint64, err error) error {
	var wrong *recompute.Error
	if !errors.As(err, &wrong) {
		return err
	}
	if wrong.Field == "" {
		return damaged(DamageKindEvent, seq, "%s", wrong.Message)
	}
	return checkDamaged(seq, wrong.Field, "%s", wrong.Message)
}

// Rebuilder is like recompute.Rebuilder, but its Check method returns a *Damage if the rebuilt
// record does not match the event.
type Rebuilder struct{ recompute.Rebuilder }

// Check rebuilds the record of the event at seq and compares the result with the event. A walk must
// already have checked the event and found no damage.
func (r *Rebuilder) Check(seq uint64, body []byte, content recompute.ContentFunc) error {
	return eventDamage(seq, r.Rebuilder.Check(body, content))
}
