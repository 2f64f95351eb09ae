package api

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"colophon/ledger/index"
	"colophon/ledger/index/records"
	"colophon/ledger/record"
)

// recordFilter reads the parameters that select records. Filter is valid after complete.
type recordFilter struct {
	records.Filter
	byOccurrence bool // since, until and the order refer to the records' timestamps
	events       bool // rows carry their event

	kind, state, clock, since, until, withEvents string

	producerSeq      uint64
	producerSeqGiven bool
}

// parameters returns the parameters of GET /records, except the common ones. given are the
// names in the request, of which any label: or stage: name is known too.
func (f *recordFilter) parameters(given []string) []parameter {
	own := []parameter{
		f.stateParameter(),
		text("kind", &f.kind), text("clock", &f.clock), text("since", &f.since), text("until", &f.until),
		text("events", &f.withEvents), count("producer_seq", &f.producerSeq, &f.producerSeqGiven),
	}
	names := slices.AppendSeq([]string{"label:<name>", "stage:<name>"}, maps.Keys(valueForms))
	for _, name := range given {
		if valueForm(name) != nil && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, name := range names {
		form := valueForm(name)
		own = append(own, parameter{name, func(value string) error {
			if err := form.check(name, value); err != nil {
				return err
			}
			f.Values = append(f.Values, records.Value{Name: name, Text: value})
			return nil
		}, form == anyForm})
	}
	return own
}

// stateParameter is the parameter state with the default any.
func (f *recordFilter) stateParameter() parameter { return text("state", &f.state) }

// complete checks the parameters and sets Filter.
func (f *recordFilter) complete() error {
	var err error
	if f.Kind, err = oneOf("kind", f.kind, "", listedKinds); err != nil {
		return err
	}
	if f.State, err = oneOf("state", f.state, "any", record.States[:]); err != nil {
		return err
	}
	if f.byOccurrence, err = choice("clock", f.clock, "recorded", "occurred"); err != nil {
		return err
	}
	if f.events, err = choice("events", f.withEvents, "false", "true"); err != nil {
		return err
	}
	if f.Bounds, err = parseBounds(f.since, f.until); err != nil {
		return err
	}
	if err := f.producer(); err != nil {
		return err
	}
	if len(f.Values) > records.MaxValues {
		return invalid(f.Values[records.MaxValues].Name, "is one too many: a request filters by at most %d values", records.MaxValues)
	}
	slices.SortFunc(f.Values, func(a, b records.Value) int { return cmp.Compare(a.Name, b.Name) })
	return nil
}

var listedKinds = append(slices.Clone(record.Kinds[:]), record.ContentRedacted)

// matchesAll reports whether the filter selects every record.
func (f *recordFilter) matchesAll() bool {
	return f.Kind == "" && f.State == "" && len(f.Values) == 0 && f.Bounds == (index.Bounds{})
}

// producer merges producer and producer_seq into one value of the index.
func (f *recordFilter) producer() error {
	if !f.producerSeqGiven {
		return nil
	}
	i := slices.IndexFunc(f.Values, func(v records.Value) bool { return v.Name == "producer" })
	if i < 0 {
		return invalid("producer_seq", "counts the records of one producer: give producer too")
	}
	f.Values[i] = records.ProducerSeq(f.Values[i].Text, f.producerSeq)
	return nil
}

// oneOf parses a parameter with known values. It returns "" for an empty value and for all.
func oneOf[S ~string](name, value, all string, known []S) (S, error) {
	if value == "" || value == all {
		return "", nil
	}
	if !slices.Contains(known, S(value)) {
		var names []string
		for _, k := range known {
			names = append(names, string(k))
		}
		if all != "" {
			names = append(names, all)
		}
		return "", invalid(name, "must be one of %s", strings.Join(names, ", "))
	}
	return S(value), nil
}

// parseBounds parses the parameters since and until.
func parseBounds(since, until string) (b index.Bounds, err error) {
	if b.Since, err = parseTime("since", since); err == nil {
		b.Until, err = parseTime("until", until)
	}
	return b, err
}

// parseTime parses a time as in RFC 3339. It returns nil for an empty value.
func parseTime(name, value string) (*time.Time, error) {
	if value == "" {
		return nil, nil
	}
	at, ok := record.ParseTime([]byte(value))
	if ok {
		return &at, nil
	}
	hint := ""
	if _, ok := record.ParseTime([]byte(strings.Replace(value, " ", "+", 1))); ok {
		hint = "; write + as %2B" // a query decodes + as a space
	}
	return nil, invalid(name, "must be a time as in RFC 3339, like 2026-01-02T15:04:05Z%s", hint)
}

// form is the format of a value. name describes it in error messages.
type form struct {
	fits func(value string) bool
	name string
}

// check returns an error if a parameter does not have the form.
func (f *form) check(name, value string) error {
	if f.fits(value) {
		return nil
	}
	return invalid(name, "must be %s", f.name)
}

var (
	anyForm   = &form{func(string) bool { return true }, "text"}
	idForm    = &form{func(value string) bool { return value != "" }, "text, not empty"}
	flagForm  = &form{regexp.MustCompile(`^(mismatch|unregistered_source)$`).MatchString, `"mismatch" or "unregistered_source"`}
	fieldForm = &form{records.CheckedField, "a checked field as the metric of checks names it, like output_hash, chunk_hash or stage:answer"}
	hashForm  = &form{regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString, "64 lower-case hexadecimal digits"}
	chunkForm = &form{regexp.MustCompile(`^sha256:[0-9a-f]{64}$`).MatchString, `"sha256:" and 64 lower-case hexadecimal digits`}
	pathForm  = &form{regexp.MustCompile(`^([0-9a-f]{8})+$`).MatchString, "8 lower-case hexadecimal digits, or 16 and more where those are held"}
	printForm = &form{regexp.MustCompile(`^[0-9a-f]{8}$`).MatchString, "8 lower-case hexadecimal digits"}
)

// valueForms are the names by which records are found, except label: and stage: names.
var valueForms = map[string]*form{
	"run_id": idForm, "source_id": idForm, "producer": idForm,
	"subject": anyForm, "project": anyForm, "model": anyForm,
	"flag": flagForm, "mismatch": fieldForm,
	"chunk_hash": chunkForm, "path_id": pathForm, "content_fingerprint": printForm, "raw_content_fingerprint": printForm,
	"input_hash": hashForm, "system_prompt_hash": hashForm, "output_hash": hashForm, "ipc_id": hashForm, "ipc_id_advanced": hashForm,
	"root": hashForm, "question_hash": hashForm, "preflight_hash": hashForm, "context_root": hashForm, "evidence_map_root": hashForm,
	"conversation_hash": hashForm, "governance_policy_hash": hashForm, "verifier_policy_hash": hashForm, "source_root": hashForm,
	"model_profile_hash": hashForm, "cache_key": hashForm,
}

// valueForm returns the format of the values of a name. It returns nil if records are not
// found by that name.
func valueForm(name string) *form {
	switch {
	case strings.HasPrefix(name, "label:"):
		return anyForm
	case strings.HasPrefix(name, "stage:"):
		return hashForm
	}
	return valueForms[name]
}
