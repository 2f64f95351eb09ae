package audit

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"colophon/ledger/record"
	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
)

// poster writes the normalised record (docs/spec, "Record digest") that an event is about.
type poster struct {
	kind           record.Kind
	record, checks pyjson.Value
	content        map[string][]byte
	doubted        string // a check that is taken for its contrary; empty for none
	unknown        bool   // it has words that the event leaves out

	members  []postedMember
	document pyjson.Document
	err      error // content that is no JSON where it must be
}

// postedMember is a member of an object, its value in canonical JSON; nil if it is left
// out.
type postedMember struct {
	name  string
	value []byte
}

// append appends the normalised record in canonical form (WTF-8).
func (p *poster) append(dst []byte) ([]byte, error) {
	p.members, p.err = p.members[:0], nil
	p.said("labels", "producer", "run_id", "timestamp")
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
	slices.SortFunc(p.members, func(a, b postedMember) int { return strings.Compare(a.name, b.name) })
	return appendObject(dst, p.members), p.err
}

func appendObject(dst []byte, members []postedMember) []byte {
	dst = append(dst, '{')
	for _, m := range members {
		if m.value == nil {
			continue
		}
		if dst[len(dst)-1] != '{' {
			dst = append(dst, ',')
		}
		dst = append(append(append(append(dst, '"'), m.name...), '"', ':'), m.value...)
	}
	return append(dst, '}')
}

func (p *poster) add(name string, value []byte) {
	p.members = append(p.members, postedMember{name, value})
}

// said adds members that the event repeats as they are.
func (p *poster) said(names ...string) {
	for _, name := range names {
		p.add(name, p.record.Member(name).Raw())
	}
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

// texts, documents and hashes add members that are content, or claim a hash.
func (p *poster) texts(names ...string) {
	for _, name := range names {
		p.add(name, p.text(name))
	}
}

func (p *poster) documents(names ...string) {
	for _, name := range names {
		p.add(name, p.json(name))
	}
}

func (p *poster) hashes(names ...string) {
	for _, name := range names {
		p.add(name, p.claim(name, p.record.Member("hashes").Member(name)))
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
	p.said("environment", "max_tokens", "model", "payload_schema", "temperature")
	p.documents("payload")
	p.texts("system_prompt", "output")
	p.hashes("input_hash", "system_prompt_hash", "output_hash", "ipc_id", "ipc_id_advanced")
	usage := p.record.Member("usage").Raw()
	if usage == nil {
		usage = p.json("usage")
	}
	p.add("usage", usage)
	p.add("seed", p.seed())
}

// seed is nil if the payload has that very seed.
func (p *poster) seed() []byte {
	seed := p.record.Member("seed").Raw()
	payload, given := p.content["payload"]
	if !given || seed == nil {
		return seed
	}
	if err := p.document.Parse(payload); err != nil {
		p.err = err
		return seed
	}
	if bytes.Equal(seed, record.AppendPayloadSeed(nil, p.document.Root(), string(p.record.Member("payload_schema").Text()))) {
		return nil
	}
	return seed
}

func (p *poster) run() {
	p.documents("dag", "inputs", "reject_inputs", "messages", "policy", "verifier_policy", "source_roots", "evidence")
	p.texts("question", "answer_text")
	p.hashes("cache_key")
	if mode := p.record.Member("question_mode"); string(mode.Text()) == "strict" {
		p.add("question_mode", mode.Raw())
	}
	dimensions := p.record.Member("cache_dimensions")
	if dimensions.Kind() == pyjson.Absent {
		return
	}
	var members []postedMember
	for _, name := range slices.Sorted(slices.Values(rules.Dimensions[:])) {
		if v := dimensions.Member(name); v.Kind() != pyjson.Absent {
			members = append(members, postedMember{name, p.dimension(name, v)})
		}
	}
	p.add("cache_dimensions", appendObject(nil, members))
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
	p.said("project", "build", "route")
	p.texts("content")
	p.hashes("path_id", "content_fingerprint", "raw_content_fingerprint")
}

func (p *poster) set() {
	p.said("subject")
	list, n := []byte{'['}, 0
	for c := range p.record.Member("citations").Elements() {
		name := "citations/" + strconv.Itoa(n)
		if n++; n > 1 {
			list = append(list, ',')
		}
		section := c.Member("section").Raw()
		if c.Member("section").Kind() == pyjson.Null {
			section = nil
		}
		list = appendObject(list, []postedMember{
			{"chunk_hash", p.claim(name+"/chunk_hash", c.Member("chunk_hash"))}, {"section", section},
			{"source_id", c.Member("source_id").Raw()}, {"text", p.text(name + "/text")}, {"weight", c.Member("weight").Raw()},
		})
	}
	p.add("citations", append(list, ']'))
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
