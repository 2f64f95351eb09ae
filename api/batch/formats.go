package batch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"colophon/api/problem"
	"colophon/api/records"
	"colophon/ledger"
	"colophon/ledger/index"
	"colophon/ledger/index/paths"
	"colophon/ledger/record"
	"colophon/ledger/record/fields"
	"colophon/ledger/record/formats"
	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/strict"
)

// A line of a batch can contain a record in the format of another system (spec: Requests). Such a
// line has a "format" member instead of "kind". It becomes one record. If the line also requests a
// state change or validation of the record, that change is recorded next.

// maxNativeValues is the maximum number of JSON values in a line with a "format" member. It is
// small because the answer lists every member of the line.
const maxNativeValues = 20_000

// nativeLine contains the data, besides the record, of a line with a "format" member.
type nativeLine struct {
	entry formats.Conversion
}

// hasFormat reports whether a line was refused because it has a "format" member.
func hasFormat(refused error) bool {
	invalid := (*strict.Error)(nil)
	return errors.As(refused, &invalid) &&
		slices.ContainsFunc(invalid.Problems, func(p strict.Problem) bool { return p.Pointer == "/format" })
}

// parseNative decodes a line that has a "format" member.
func (b *batch) parseNative(text []byte) (line record.BatchLine, native *nativeLine, err error) {
	limits := b.values
	o := formats.Options{Limits: limits, MaxMembers: maxNativeValues}
	o.Limits.MaxJSONValues = min(limits.MaxJSONValues, maxNativeValues)
	var document pyjson.Document
	if document.ParseLimited(text, o.Limits.MaxJSONValues) != nil {
		return line, nil, unprocessable("", fmt.Sprintf("a line with the member \"format\" can have at most %d JSON values and names; to record larger entries, use colophon import", o.Limits.MaxJSONValues))
	}
	root := document.Root()
	format, key, err := nativeOptions(root, &o)
	if err != nil {
		return line, nil, err
	}
	entries, err := format.ConvertValue(root.Member("record"), o)
	if err != nil {
		return line, nil, unprocessable("/record", err.Error())
	}
	entry, err := onlyEntry(entries)
	if err != nil {
		return line, nil, err
	}
	if key != "" {
		entry.Key = key
	}
	r, err := limits.ParseRecord(entry.Kind, entry.Record)
	if err != nil {
		return line, nil, within("/record", err)
	}
	return record.BatchLine{Record: r, Key: entry.Key}, &nativeLine{entry}, nil
}

// nativeOptions reads all members of a line except its record. It returns the format and the
// idempotency key, and stores the other options in o.
func nativeOptions(root pyjson.Value, o *formats.Options) (format formats.Format, key string, err error) {
	for name, value := range root.Members() {
		m := string(name.Text())
		text := string(value.Text())
		if m == "record" || m != "format" && value.Kind() == pyjson.Null {
			continue
		}
		if value.Kind() != pyjson.String || text == "" || len(text) > fields.MaxNameBytes || pyjson.HasLoneSurrogate(value.Text()) {
			return "", "", unprocessable("/"+m, fmt.Sprintf("must be a string of 1 to %d bytes", fields.MaxNameBytes))
		}
		switch m {
		case "format":
			format, err = formats.Parse(text, formats.BatchFormats)
		case "idempotency_key":
			key = text
		case "zone":
			o.DefaultZone, err = formats.ParseZone(text)
		case "project":
			o.Project = text
		case "subject":
			o.Subject = text
		case "run_id":
			o.RunID = text
		default:
			return "", "", &strict.Error{Malformed: true, Problems: []strict.Problem{{
				Pointer: string(pyjson.AppendPointerToken(nil, name.Text())), Detail: "unknown member; remove it or correct its name"}}}
		}
		if err != nil {
			return "", "", unprocessable("/"+m, err.Error())
		}
	}
	return format, key, nil
}

// onlyEntry returns the one entry that has a record, with the members of all entries merged into
// it. It returns an error unless exactly one entry has a record.
func onlyEntry(entries []formats.Conversion) (only formats.Conversion, err error) {
	n := 0
	for _, e := range entries {
		switch {
		case e.Kind == "":
			only.MemberOutcomes = append(only.MemberOutcomes, e.MemberOutcomes...)
		case n == 0:
			e.MemberOutcomes = append(only.MemberOutcomes, e.MemberOutcomes...)
			only = e
			n++
		default:
			n++
		}
	}
	switch {
	case n != 1:
		return only, unprocessable("/record", fmt.Sprintf("has %d entries, but must have exactly one; send one line per entry", n))
	case only.Record == nil:
		return only, unprocessable("/record", only.FailureReason)
	}
	return only, nil
}

func unprocessable(pointer, detail string) error {
	return &strict.Error{Problems: []strict.Problem{{Pointer: pointer, Detail: detail}}}
}

// within prepends pointer, the JSON pointer of a record, to the pointers in an error about that
// record. It returns other errors unchanged.
func within(pointer string, err error) error {
	invalid := (*strict.Error)(nil)
	if !errors.As(err, &invalid) {
		return err
	}
	for i := range invalid.Problems {
		invalid.Problems[i].Pointer = pointer + invalid.Problems[i].Pointer
	}
	return invalid
}

// appendImported makes the state change or validation that an imported line requests, if any, and
// adds the result to the receipt. For each member of the original record, it adds where the member
// was kept, or why it was left out. If the change fails, the record is still in the log. replayed says
// whether the record was in the log before.
func (b *batch) appendImported(ctx context.Context, receipt []byte, native *nativeLine, seq uint64, replayed bool) []byte {
	w := pyjson.Builder{Buf: append(receipt[:len(receipt)-1], `,"imported":`...)}
	w.BeginSortedObject()
	if c := native.entry.Change; c != nil {
		w.BeginMember("change")
		w.BeginSortedObject()
		w.AddText("kind", []byte(c.Kind()))
		if event, err := b.follow(ctx, &native.entry, seq, replayed); err != nil {
			p, internal := problem.FromError(err)
			if internal {
				b.Logger.Error("an imported record was stored, but its state change or validation failed", "ledger", b.ledger.Name(), "seq", seq, "error", err)
			}
			w.AddText("problem", []byte(p.Detail))
		} else {
			w.AddInt("seq", int(event)) // #nosec G115 -- a count of events
		}
		w.EndObject()
	}
	w.BeginMember("members")
	w.Buf = append(w.Buf, '[')
	for i, m := range native.entry.MemberOutcomes {
		w.WriteComma(i)
		w.BeginSortedObject()
		w.AddText("as", []byte(m.Detail))
		w.AddText("fate", []byte(m.Outcome))
		w.AddText("pointer", []byte(m.Pointer))
		w.EndObject()
	}
	w.Buf = append(w.Buf, ']')
	w.EndObject()
	return append(w.Buf, '}')
}

// follow records the state change or validation in e, which applies to the record at seq. It
// returns the seq of the event that recorded the change.
func (b *batch) follow(ctx context.Context, e *formats.Conversion, seq uint64, replayed bool) (event uint64, err error) {
	v, err := b.change(ctx, e, seq, replayed)
	if err != nil {
		return 0, err
	}
	sub, err := b.ledger.PrepareAction(v, b.options.Actor, e.Change.Key)
	if err != nil {
		return 0, err
	}
	ack, err := b.ledger.Submit(sub)
	switch {
	case err != nil:
		return 0, err
	case ack.Outcome == ledger.OutcomeReplayed:
		return ack.KeyHolderSeq, nil
	case ack.Outcome == ledger.OutcomeConflicted:
		return 0, problem.New(http.StatusConflict, "event %d, from another request, already uses this change's idempotency key", ack.KeyHolderSeq)
	}
	return ack.Seq, nil
}

// change returns the action for the state change or validation in an entry. It accepts whatever a
// separate request for the change would accept, except that a validation applies only to the text of
// the record at seq. If an event already has the change's idempotency key, it returns the action in
// any case, because the ledger then replays or refuses it (spec: Idempotency).
func (b *batch) change(ctx context.Context, e *formats.Conversion, seq uint64, replayed bool) (*record.Action, error) {
	c := e.Change
	if c.State != "" {
		var w pyjson.Builder
		w.BeginObject()
		w.AddText("original_actor", textOrNil(c.OriginalActor))
		w.AddText("reason", []byte(c.Reason))
		w.AddText("state", []byte(c.State))
		w.AddText("timestamp", textOrNil(c.Timestamp))
		w.EndObject()
		return record.ParseStateChange(seq, w.Buf)
	}
	size := seq + 1 // later lines of the batch can already have recorded other texts
	if replayed {
		size = b.ledger.Head().Size
	}
	follower, err := b.WaitForIndex(ctx, b.ledger, size)
	if err != nil {
		return nil, err
	}
	view, err := follower.View(size)
	if err != nil {
		return nil, err
	}
	p, same, err := validated(ctx, view, e.Project(), c.PathID, seq)
	if err = errors.Join(err, view.Close()); err != nil {
		return nil, fmt.Errorf("looking up a path: %w", err)
	}
	if !same {
		held, err := records.HasIdempotencyKey(ctx, b.ledger, c.Key)
		if err != nil {
			return nil, err
		}
		if !held {
			return nil, problem.New(http.StatusConflict, "the validation was not recorded: the path has a later record with another text (event %d)", p.Seq)
		}
	}
	path := record.LatestPathRecord{Project: e.Project(), PathID: c.PathID, Build: p.Build, RecordSeq: p.Seq, ContentFingerprint: p.ContentFingerprint}
	request := record.ValidationRequest{Validated: true, Reason: []byte(c.Reason),
		ActionOrigin: fields.ActionOrigin{OriginalActor: textOrNil(c.OriginalActor), Timestamp: textOrNil(c.Timestamp)}}
	return request.ActionFor(path), nil
}

func textOrNil(text string) []byte {
	if text == "" {
		return nil
	}
	return []byte(text)
}

// validated returns the path to which a validation of the record at seq applies: the one with
// pathID in the build of that record. same reports whether the path's latest record has the text of
// that record.
func validated(ctx context.Context, view *index.View, project, pathID string, seq uint64) (p paths.Path, same bool, err error) {
	e, err := view.Event(ctx, seq)
	if err != nil {
		return p, false, err
	}
	f := e.PathFingerprint()
	var build *string
	if f.Build != nil {
		name := string(f.Build)
		build = &name
	}
	p, known, err := paths.Get(view, project, pathID, build)
	if err == nil && !known {
		err = problem.New(http.StatusNotFound, "the project has no record with the given path_id")
	}
	return p, p.Seq == seq || p.ContentFingerprint != "" && p.ContentFingerprint == string(f.ContentFingerprint), err
}
