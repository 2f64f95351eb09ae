package replay

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"
	"strconv"
	"strings"

	"colophon/ledger/record"
	"colophon/ledger/record/fields"
	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
)

// logValues holds the values in a log's events that questions can ask about: all of them, or a
// sample of each kind.
type logValues struct {
	sample int // number of values of each kind; -1 means all
	seed   uint64
	kinds  map[string]*valueSample
}

// valueSample is a sample of the distinct values of one kind. It contains the values whose seeded
// hashes are the smallest.
type valueSample struct {
	most int // size of the sample; -1 means no limit
	kept map[string]uint64
}

func newLogValues(sample int, seed uint64) *logValues {
	return &logValues{sample: sample, seed: seed, kinds: make(map[string]*valueSample)}
}

// add adds a value to the sample of the given kind, unless the sample already has it.
func (v *logValues) add(kind, value string) {
	s := v.kinds[kind]
	if s == nil {
		s = &valueSample{most: v.sample, kept: make(map[string]uint64)}
		v.kinds[kind] = s
	}
	if _, known := s.kept[value]; known {
		return
	}
	s.kept[value] = v.rank(value)
	if s.most >= 0 && len(s.kept) > 2*s.most+16 {
		s.cut()
	}
}

// rank returns a pseudo-random number that depends only on the seed and the value.
func (v *logValues) rank(value string) uint64 {
	sum := sha256.Sum256(append(binary.BigEndian.AppendUint64(nil, v.seed), value...))
	return binary.BigEndian.Uint64(sum[:])
}

// cut keeps the s.most values with the smallest hashes and drops all others.
func (s *valueSample) cut() {
	for _, value := range s.ranked()[s.most:] {
		delete(s.kept, value)
	}
}

func (s *valueSample) ranked() []string {
	return slices.SortedFunc(maps.Keys(s.kept), func(a, b string) int { return cmp.Or(cmp.Compare(s.kept[a], s.kept[b]), cmp.Compare(a, b)) })
}

// of returns the sampled values of the given kind in pseudo-random order.
func (v *logValues) of(kind string) []string {
	s := v.kinds[kind]
	if s == nil {
		return nil
	}
	values := s.ranked()
	if s.most >= 0 {
		values = values[:min(s.most, len(values))]
	}
	return values
}

// names returns the kinds that begin with prefix, without the prefix and in ascending order.
func (v *logValues) names(prefix string) []string {
	var names []string
	for kind := range v.kinds {
		if name, found := strings.CutPrefix(kind, prefix); found {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// findable returns the kind of the values that can be used in the named query parameter to find
// records.
func findable(name string) string { return "find:" + name }

// Kinds of values that findable does not return.
const (
	seqsOf      = "seq:" // prefix, followed by the kind of the event
	buildOf     = "build"
	variableOf  = "variable:" // prefix, followed by the name of the variable
	memberOf    = "member"    // JSON pointers of payload members
	sourcesSeen = "source"
	anySeq      = "seq"
	eventHashes = "event"
	timesOf     = "time"     // times of events
	occurrences = "occurred" // timestamps in records
	stagesOf    = "stage"    // seq of the run-DAG and name of the stage
	citationsOf = "citation" // seq of the citation set and number of the citation
	numbersOf   = "number"   // name of the producer and sequence number
)

// read adds the values in an event to the samples.
func (v *logValues) read(seq uint64, event pyjson.Value) {
	kind := record.Kind(event.Member("kind").Text())
	r := event.Member("record")
	v.add(seqsOf+string(kind), decimal(seq))
	v.add(anySeq, decimal(seq))
	v.text(timesOf, event.Member("time"))
	v.text(occurrences, r.Member("timestamp"))
	if source := r.Member("source_id"); source.Kind() == pyjson.String { // the event is a registration of a source
		v.add(sourcesSeen, string(source.Text()))
	}
	if kind == record.KindNote {
		v.add(findable("record_seq"), string(r.Member("record_seq").Raw()))
		v.text(findable("topic"), r.Member("topic"))
	}
	if !slices.Contains(record.RecordKinds[:], kind) {
		return
	}
	for _, name := range [...]string{"run_id", "subject", "project", "model", "audit_mode", "verifier_method", "shape"} {
		v.text(findable(name), r.Member(name))
	}
	v.text(findable("producer"), r.Member("producer").Member("id"))
	if number := r.Member("producer").Member("seq"); number.Kind() != pyjson.Absent {
		v.add(numbersOf, string(r.Member("producer").Member("id").Text())+"\x00"+string(number.Raw()))
	}
	for name, value := range r.Member("hashes").Members() {
		if strings.HasSuffix(string(name.Text()), "input_hash") { // both input_hash and seedless_input_hash identify an input
			v.text(findable("input"), value)
			v.text(variableOf+"input", value)
		}
		v.text(findable(strings.TrimPrefix(string(name.Text()), "seedless_")), value)
	}
	for name, check := range event.Member("checks").Members() {
		if string(check.Member("result").Text()) == string(record.ResultMismatch) {
			v.add(findable("mismatch"), record.Check{Field: string(name.Text())}.MetricLabel())
		}
		if rule, is := strings.CutPrefix(string(name.Text()), rules.VerdictCheckPrefix); is {
			v.add(findable("inconsistent"), rule)
		}
	}
	for name, value := range r.Member("labels").Members() {
		v.text(findable("label:"+string(name.Text())), value)
	}
	v.runDAG(kind, r)
	for node := range r.Member("nodes").Elements() {
		v.text(findable("stage:"+string(node.Member("stage").Text())), node.Member("hash"))
		v.add(stagesOf, decimal(seq)+"\x00"+string(node.Member("stage").Text()))
	}
	number := 0
	for c := range r.Member("citations").Elements() {
		v.text(findable("chunk_hash"), c.Member("chunk_hash"))
		v.text(findable("source_id"), c.Member("source_id"))
		v.text(sourcesSeen, c.Member("source_id"))
		v.add(citationsOf, decimal(seq)+"\x00"+strconv.Itoa(number))
		number++
	}
	if build := r.Member("build"); build.Kind() == pyjson.String {
		v.add(buildOf, string(r.Member("project").Text())+"\x00"+string(build.Text()))
	}
	v.variables(kind, r)
}

// runDAG adds the values that describe the outcome of a run-DAG and its sources and evidence.
func (v *logValues) runDAG(kind record.Kind, r pyjson.Value) {
	if kind != record.KindRunDAG {
		return
	}
	switch failed := r.Member("failure_stage"); {
	case failed.Kind() == pyjson.String:
		v.text(findable("failure_stage"), failed)
	case r.Member("n_quotes").Kind() == pyjson.Absent && string(r.Member("shape").Text()) != rules.ShapeReject:
		v.add(findable("failure_stage"), "unknown")
	default:
		v.add(findable("failure_stage"), "none")
	}
	for root := range r.Member("document_roots").Elements() {
		v.text(findable("document_root"), root)
	}
	for id := range r.Member("evidence_ids").Elements() {
		v.text(findable("evidence_id"), id)
	}
}

// variables adds the values of variables whose effects can be requested.
func (v *logValues) variables(kind record.Kind, r pyjson.Value) {
	if kind != record.KindIPCRecord {
		return
	}
	for _, name := range [...]string{"temperature", "max_tokens", "seed"} {
		if value := r.Member(name); value.Kind() != pyjson.Absent && len(value.Raw()) <= 64 {
			v.add(variableOf+name, string(value.Raw()))
		}
	}
	for pointer, digest := range r.Member("payload_members").Members() {
		v.add(memberOf, string(pointer.Text()))
		v.text(variableOf+string(pointer.Text()), digest)
	}
	v.text(variableOf+"model", r.Member("model"))
	build := r.Member("environment").Member("ollama_build_hash")
	v.text(findable("ollama_build_hash"), build)
	v.text(variableOf+"ollama_build_hash", build)
	for _, name := range [...]string{"input_hash", "system_prompt_hash"} {
		v.text(variableOf+name, r.Member("hashes").Member(name))
	}
	v.add(findable("incomplete"), fields.IPCParts[len(fields.IPCParts)-1])
}

func (v *logValues) text(kind string, value pyjson.Value) {
	if value.Kind() == pyjson.String {
		v.add(kind, string(value.Text()))
	}
}
