package audit

import (
	"bytes"
	"math"
	"slices"
	"strconv"

	"colophon/ledger/record"
	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
)

// poster writes the record that an event is about, in the ways in which it may have
// been posted. All of them make the same event, but for the digest.
type poster struct {
	kind           record.Kind
	record, checks pyjson.Value
	content        map[string][]byte
	doubted        string // a check that is taken for its contrary; empty for none
	unknown        bool   // it has words that the event leaves out

	members []postedMember // of the record, in the order of their names
	choices []choice       // all that is not known of the way
	// open: there are ways that the choices do not cover.
	open bool

	document pyjson.Document
	err      error // content that is no JSON where it must be
}

// postedMember is one member of an object, or an array of objects.
type postedMember struct {
	name string
	// values are canonical JSON, nil where the member is left out. The first is what
	// the event says plainly; which it was is a choice where there are several.
	values [][]byte
	choice int
	// objects are the elements of an array; there are no values then.
	objects [][]postedMember
	isArray bool
}

// choice is one of the things that are not known of a way. Those that a service
// probably makes alike have one name.
type choice struct {
	name  string
	of    int // values
	nulls int // the one in which what was not given is null
}

// read finds out what the record was.
func (p *poster) read() error {
	p.members, p.choices, p.open, p.err = nil, nil, false, nil
	p.members = append(p.members, p.said("labels", "producer", "run_id", "timestamp")...)
	switch p.kind {
	case record.IPCRecord:
		p.ipc()
	case record.RunDAG:
		p.run()
	case record.CitationSet:
		p.set()
	case record.PathFingerprint:
		p.path()
	}
	sortMembers(p.members)
	return p.err
}

func sortMembers(members []postedMember) {
	slices.SortFunc(members, func(a, b postedMember) int { return bytes.Compare([]byte(a.name), []byte(b.name)) })
}

// oneOf is a member of several values, or of one.
func (p *poster) oneOf(name string, values ...[]byte) postedMember {
	m := postedMember{name: name, values: values}
	if len(values) > 1 {
		m.choice = len(p.choices)
		nulls := slices.IndexFunc(values, isNull)
		if nulls < 0 && values[0][0] == '{' { // an object: the last has all of its nulls
			nulls = len(values) - 1
		}
		p.choices = append(p.choices, choice{name, len(values), max(0, nulls)})
	}
	return m
}

// nullJSON is null.
var nullJSON = []byte("null")

func isNull(value []byte) bool { return bytes.Equal(value, nullJSON) }

// given is a member that was given as value; where that is nil it was left out, or null.
func (p *poster) given(name string, value []byte) postedMember {
	if value == nil {
		return p.oneOf(name, nil, nullJSON)
	}
	return p.oneOf(name, value)
}

// said are members that the event repeats as they are.
func (p *poster) said(names ...string) (members []postedMember) {
	for _, name := range names {
		members = append(members, p.given(name, p.record.Member(name).Raw()))
	}
	return members
}

// text is content that is a text, as JSON; nil where there is none.
func (p *poster) text(name string) []byte {
	text, given := p.content[name]
	if !given {
		return nil
	}
	return pyjson.AppendString(nil, text)
}

// json is content that is JSON, in its canonical form; nil where there is none.
func (p *poster) json(name string) []byte {
	source, given := p.content[name]
	if !given {
		return nil
	}
	if err := p.document.Parse(source); err != nil {
		p.err = err
		return nil
	}
	return p.document.Root().AppendCanonical(nil, pyjson.Compact)
}

func (p *poster) add(members ...postedMember) { p.members = append(p.members, members...) }

// texts, documents and hashes add members that are content, or claim a hash.
func (p *poster) texts(names ...string) {
	for _, name := range names {
		p.add(p.given(name, p.text(name)))
	}
}

func (p *poster) documents(names ...string) {
	for _, name := range names {
		p.add(p.given(name, p.json(name)))
	}
}

func (p *poster) hashes(names ...string) {
	for _, name := range names {
		p.add(p.given(name, p.claim(name, p.record.Member("hashes").Member(name))))
	}
}

// claim is what the check of that name says was claimed; nil if nothing was.
func (p *poster) claim(check string, effective pyjson.Value) []byte {
	v := p.checks.Member(check)
	result := record.Result(v.Member("result").Text())
	if p.doubted == check {
		result = contrary(result)
	}
	switch shown := v.Member("claimed").Raw(); {
	case shown != nil:
		return shown
	case result == record.Match || result == record.Claimed:
		return effective.Raw()
	}
	return nil
}

// contrary is the result where the same hash was claimed, or was not.
func contrary(result record.Result) record.Result {
	if result == record.Match {
		return record.Computed
	}
	return record.Match
}

func (p *poster) ipc() {
	p.add(p.said("max_tokens", "model", "payload_schema")...)
	p.documents("payload")
	p.texts("system_prompt", "output")
	p.hashes("input_hash", "system_prompt_hash", "output_hash", "ipc_id", "ipc_id_advanced")
	usage := p.record.Member("usage").Raw()
	if usage == nil {
		usage = p.json("usage")
	}
	p.add(p.given("usage", usage), p.temperature(), p.seed(), p.environment())
}

// temperature may have been written as an integer.
func (p *poster) temperature() postedMember {
	const exact = 1 << 53 // beyond that, several integers are one double
	v := p.record.Member("temperature")
	value, _ := v.Float()
	if value != math.Trunc(value) {
		return p.oneOf("temperature", v.Raw())
	}
	if math.Abs(value) >= exact {
		p.open = true
		return p.oneOf("temperature", v.Raw())
	}
	return p.oneOf("temperature", v.Raw(), strconv.AppendInt(nil, int64(value), 10))
}

// seed may have been left to the payload, if the payload has that very seed.
func (p *poster) seed() postedMember {
	seed := p.record.Member("seed").Raw()
	payload, given := p.content["payload"]
	if !given || seed == nil {
		return p.given("seed", seed)
	}
	if err := p.document.Parse(payload); err != nil {
		p.err = err
		return p.given("seed", seed)
	}
	if own := record.PayloadSeed(p.document.Root(), string(p.record.Member("payload_schema").Text())); !bytes.Equal(own, seed) {
		return p.oneOf("seed", seed)
	}
	return p.oneOf("seed", seed, nil, nullJSON)
}

// environment may have had members that are null.
func (p *poster) environment() postedMember {
	environment := p.record.Member("environment")
	values := [][]byte{{'{'}}
	for _, name := range [...]string{"host_platform", "model_digest", "ollama_build_hash"} {
		if raw := environment.Member(name).Raw(); raw != nil {
			values = product(values, name, raw)
		} else {
			values = product(values, name, nil, nullJSON)
		}
	}
	for i := range values {
		values[i] = append(values[i], '}')
	}
	if environment.Kind() == pyjson.Absent {
		values = append([][]byte{nil, nullJSON}, values...)
	}
	return p.oneOf("environment", values...)
}

// product appends a member, in each of its values, to each of some objects.
func product(objects [][]byte, name string, values ...[]byte) (all [][]byte) {
	for _, object := range objects {
		for _, value := range values {
			all = append(all, appendMember(bytes.Clone(object), name, value))
		}
	}
	return all
}

// appendMember appends a member to an object that is open; nil is left out.
func appendMember(dst []byte, name string, value []byte) []byte {
	if value == nil {
		return dst
	}
	return append(appendName(dst, name), value...)
}

func appendName(dst []byte, name string) []byte {
	if dst[len(dst)-1] != '{' {
		dst = append(dst, ',')
	}
	return append(append(append(dst, '"'), name...), '"', ':')
}

func (p *poster) run() {
	p.documents("dag", "inputs", "reject_inputs", "messages", "policy", "verifier_policy", "source_roots", "evidence")
	p.texts("question", "answer_text")
	p.hashes("cache_key")
	const byDefault = `"equivalence_class"`
	switch mode := p.record.Member("question_mode").Raw(); {
	case mode == nil: // without a question it means nothing
		p.add(p.oneOf("question_mode", nil, nullJSON, []byte(`"strict"`), []byte(byDefault)))
	case string(mode) == byDefault:
		p.add(p.oneOf("question_mode", mode, nil, nullJSON))
	default:
		p.add(p.oneOf("question_mode", mode))
	}
	dimensions := p.record.Member("cache_dimensions")
	if dimensions.Kind() == pyjson.Absent {
		p.add(p.given("cache_dimensions", nil))
		return
	}
	values := [][]byte{{'{'}}
	for _, name := range slices.Sorted(slices.Values(rules.Dimensions[:])) {
		switch v := dimensions.Member(name); v.Kind() {
		case pyjson.Absent:
			values = product(values, name, nil, nullJSON)
		default:
			values = product(values, name, p.dimension(name, v))
		}
	}
	for i := range values {
		values[i] = append(values[i], '}')
	}
	p.add(p.oneOf("cache_dimensions", values...))
}

// unknownWord stands for words that an event leaves out: a lone surrogate, in WTF-8,
// which no event holds either.
var unknownWord = []byte("\"\xED\xA0\x80\"")

// dimension is a dimension of the cache key as it was claimed: it may be the claim of a
// hash that was recomputed.
func (p *poster) dimension(name string, value pyjson.Value) []byte {
	if value.Kind() == pyjson.Null && rules.IsVersion(name) {
		return unknownWord
	}
	for _, check := range [...]string{"cache_dimensions." + name, name} {
		v := p.checks.Member(check)
		if claim := v.Member("claimed").Raw(); claim != nil {
			return claim
		}
		if v.Kind() != pyjson.Absent {
			break
		}
	}
	return value.Raw()
}

func (p *poster) path() {
	p.add(p.said("project", "build", "route")...)
	p.texts("content")
	p.hashes("path_id", "content_fingerprint", "raw_content_fingerprint")
	p.add(p.oneOf("hash_version", nil, nullJSON, p.record.Member("hash_version").Raw()))
}

func (p *poster) set() {
	p.add(p.said("subject")...)
	list := postedMember{name: "citations", isArray: true}
	for c := range p.record.Member("citations").Elements() {
		name := "citations/" + strconv.Itoa(len(list.objects))
		section := c.Member("section").Raw()
		if c.Member("section").Kind() == pyjson.Null {
			section = nil
		}
		list.objects = append(list.objects, []postedMember{
			p.given("chunk_hash", p.claim(name+"/chunk_hash", c.Member("chunk_hash"))), p.given("section", section),
			p.oneOf("source_id", c.Member("source_id").Raw()), p.given("text", p.text(name+"/text")), p.oneOf("weight", c.Member("weight").Raw()),
		})
	}
	p.add(list)
}

// append appends the record in canonical form (WTF-8), in the way that was chosen: by
// the numbers of the values, nil for the first of each.
func (p *poster) append(dst []byte, chosen []int) []byte {
	return appendObject(dst, p.members, chosen)
}

func appendObject(dst []byte, members []postedMember, chosen []int) []byte {
	dst = append(dst, '{')
	for _, m := range members {
		if m.isArray {
			dst = append(appendName(dst, m.name), '[')
			for i, object := range m.objects {
				if i > 0 {
					dst = append(dst, ',')
				}
				dst = appendObject(dst, object, chosen)
			}
			dst = append(dst, ']')
			continue
		}
		value := m.values[0]
		if len(m.values) > 1 && chosen != nil {
			value = m.values[chosen[m.choice]]
		}
		dst = appendMember(dst, m.name, value)
	}
	return append(dst, '}')
}

// escapeSurrogates makes canonical JSON in WTF-8 what can be parsed: lone surrogates,
// which only strings can have, become escapes.
func escapeSurrogates(wide []byte) []byte {
	if !pyjson.HasLoneSurrogate(wide) {
		return wide
	}
	escaped := make([]byte, 0, len(wide)+64)
	for i := 0; i < len(wide); i++ {
		if wide[i] == 0xED && i+2 < len(wide) && wide[i+1] >= 0xA0 { // U+D800 to U+DFFF
			unit := 0xD000 | uint64(wide[i+1]&0x3F)<<6 | uint64(wide[i+2]&0x3F)
			escaped = strconv.AppendUint(append(escaped, `\u`...), unit, 16)
			i += 2
			continue
		}
		escaped = append(escaped, wide[i])
	}
	return escaped
}
