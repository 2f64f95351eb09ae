package record

import (
	"slices"

	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
)

// Limits on what verbs put into their events, in bytes of UTF-8.
const (
	// MaxSourceID bounds the id of a source, as it does in citations.
	MaxSourceID = maxName
	// MaxReason bounds a reason.
	MaxReason = 4096

	maxReason = MaxReason
	maxTitle  = maxName
)

// State says what an IPC record or a run-DAG is good for (spec: States). One that nothing
// has changed is live; only live ones are served by cache_key.
type State string

// The states.
const (
	Live        State = "live"
	Failed      State = "failed"
	Stale       State = "stale"
	Quarantined State = "quarantined"
)

// States lists the states.
var States = [...]State{Live, Failed, Stale, Quarantined}

// IsRecord reports whether a kind is one of Kinds.
func (k Kind) IsRecord() bool { return slices.Contains(Kinds[:], k) }

// IsKnown reports whether a kind is one of EventKinds.
func (k Kind) IsKnown() bool { return slices.Contains(EventKinds[:], k) }

// HasState says whether records of a kind have a state.
func (k Kind) HasState() bool { return k == IPCRecord || k == RunDAG }

// ParseStateChange decodes `{"state", "reason"}` for the record that is event
// seq. The error is an *Error.
func ParseStateChange(seq uint64, body []byte) (*Verb, error) {
	f := &StateFields{RecordSeq: seq}
	return parseVerb(RecordStateChanged, f, body, func(o object) {
		f.State, f.Reason = o.state("state"), o.requiredReason("reason")
	}, "state", "reason")
}

// CurrentPath is a path as the latest record of it says (spec: Path validation).
type CurrentPath struct {
	Project, PathID    string // valid UTF-8
	ContentFingerprint string // empty is null
	RecordSeq          uint64
}

// ParseValidation decodes `{"validated", "reason"?}` for a path. What is
// validated is the fingerprint that it has now. The error is an *Error.
func ParseValidation(path CurrentPath, body []byte) (*Verb, error) {
	f := &ValidationFields{Project: []byte(path.Project), PathID: []byte(path.PathID), RecordSeq: path.RecordSeq}
	if path.ContentFingerprint != "" {
		f.ContentFingerprint = []byte(path.ContentFingerprint)
	}
	return parseVerb(PathValidated, f, body, func(o object) {
		f.Validated, f.Reason = o.requiredFlag("validated"), o.text("reason", maxReason)
	}, "validated", "reason")
}

// ParseRegistration decodes `{"chunk_hashes"?, "title"?, "reason"?}` for a source,
// whose id is valid UTF-8 of at most MaxSourceID bytes. No chunk_hashes says
// nothing of the chunks; an empty list says that there are none. The error is an
// *Error.
func ParseRegistration(sourceID string, body []byte) (*Verb, error) {
	f := &SourceFields{ID: []byte(sourceID)}
	return parseVerb(SourceRegistered, f, body, func(o object) {
		f.ChunkHashes, f.Listed = o.chunkHashes("chunk_hashes")
		f.Title, f.Reason = o.text("title", maxTitle), o.text("reason", maxReason)
	}, "chunk_hashes", "title", "reason")
}

// ParseRevocation decodes `{"reason"?}`, or no body at all, for a source, whose
// id is as for ParseRegistration. The error is an *Error.
func ParseRevocation(sourceID string, body []byte) (*Verb, error) {
	if len(body) == 0 {
		body = []byte("{}")
	}
	f := &SourceFields{ID: []byte(sourceID)}
	return parseVerb(SourceRevoked, f, body, func(o object) { f.Reason = o.text("reason", maxReason) }, "reason")
}

func (o object) state(name string) []byte {
	text := o.requiredText(name, maxStage)
	if text != nil && !isState(text) {
		o.d.invalid(o.at(name), "must be live, failed, stale or quarantined")
	}
	return text
}

func isState(text []byte) bool {
	for _, s := range States {
		if string(text) == string(s) {
			return true
		}
	}
	return false
}

func (o object) requiredReason(name string) []byte {
	text := o.requiredText(name, maxReason)
	if text != nil && len(text) == 0 {
		o.d.invalid(o.at(name), "must not be empty; say why")
	}
	return text
}

func (o object) requiredFlag(name string) bool {
	v := o.member(name)
	switch v.Kind() {
	case pyjson.True, pyjson.False:
	case pyjson.Absent:
		o.missing(name)
	default:
		o.d.invalid(o.at(name), "must be true or false")
	}
	return v.Kind() == pyjson.True
}

// chunkHashes is a list of distinct chunk hashes (spec: Citation hashes). What it returns does
// not refer to the request.
func (o object) chunkHashes(name string) (hashes [][]byte, given bool) {
	list := o.array(name)
	if !list.Given() {
		return nil, false
	}
	if !o.fits(name, list, len(rules.ChunkPrefix)+64+len(`"",`), "register the source in parts, each with an id of its own, or leave it out") {
		return nil, false
	}
	places := make(map[string]int)
	i := 0
	for e := range list.Elements() {
		if o.d.full() {
			return nil, false
		}
		text := string(e.Text())
		first, repeated := places[text]
		switch {
		case !rules.IsChunkHash(e.Text()):
			o.d.invalid(o.element(name, i), "must be %sexactly 64 lower-case hexadecimal digits", followedBy(rules.ChunkPrefix))
		case repeated:
			o.d.invalid(o.element(name, i), "repeats element %d; list each chunk once", first)
		default:
			places[text] = i
			hashes = append(hashes, []byte(text))
		}
		i++
	}
	return hashes, true
}
