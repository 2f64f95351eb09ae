package recompute

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"colophon/ledger/record"
	"colophon/ledger/record/members"
	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
)

// normalForm writes the normalised record of an event (spec: Record digest).
type normalForm struct {
	kind           record.Kind
	record, checks pyjson.Value
	content        map[string][]byte
	reversed       string // name of the check whose result claim reverses; empty if there is none
	unknown        bool   // whether the record has texts that the event leaves out
	// secret keys the digests of payload members. If anySecret is true, the ledger's own secret is
	// not known, and secret is only a placeholder.
	secret    *members.Secret
	anySecret bool

	members  []member
	document pyjson.Document
	err      error // set if content that must be JSON is not JSON, or has too many values
}

// member is a member of an object. Its value is canonical JSON, or nil if the object does not have
// the member.
type member struct {
	name  string
	value []byte
}

// append appends the normalised record to dst in canonical form, encoded as WTF-8.
func (n *normalForm) append(dst []byte) ([]byte, error) {
	n.members, n.err = n.members[:0], nil
	n.copy("labels", "producer", "run_id", "timestamp")
	switch n.kind {
	case record.KindIPCRecord:
		n.ipc()
	case record.KindRunDAG:
		n.run()
	case record.KindCitationSet:
		n.citations()
	case record.KindPathFingerprint:
		n.path()
	}
	slices.SortFunc(n.members, func(a, b member) int { return strings.Compare(a.name, b.name) })
	return appendObject(dst, n.members), n.err
}

func appendObject(dst []byte, members []member) []byte {
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

func (n *normalForm) add(name string, value []byte) {
	n.members = append(n.members, member{name, value})
}

// copy adds the named members with the values that they have in the event.
func (n *normalForm) copy(names ...string) {
	for _, name := range names {
		n.add(name, n.record.Member(name).Raw())
	}
}

// text returns the named text content as a JSON string, or nil if the record has no such content.
func (n *normalForm) text(name string) []byte {
	text, given := n.content[name]
	if !given {
		return nil
	}
	return pyjson.AppendString(nil, text)
}

// json returns the named JSON content in canonical form, or nil if the record has no such content.
func (n *normalForm) json(name string) []byte {
	source, given := n.content[name]
	if !given {
		return nil
	}
	if err := n.document.ParseLimited(source, record.MaxValues); err != nil {
		n.err = err
		return nil
	}
	return n.document.Root().AppendCanonical(nil, pyjson.CompactForm)
}

// texts adds the named members. The value of each member is the text content of the same name.
func (n *normalForm) texts(names ...string) {
	for _, name := range names {
		n.add(name, n.text(name))
	}
}

// documents adds the named members. The value of each member is the JSON content of the same name.
func (n *normalForm) documents(names ...string) {
	for _, name := range names {
		n.add(name, n.json(name))
	}
}

// claims adds the named members. The value of each member is the hash that the writer claimed.
func (n *normalForm) claims(names ...string) {
	for _, name := range names {
		n.add(name, n.claim(name, n.record.Member("hashes").Member(name)))
	}
}

// claim returns the hash that the writer claimed, or nil if it claimed none. Unless the check shows
// the claim, its result tells whether effective was claimed.
func (n *normalForm) claim(check string, effective pyjson.Value) []byte {
	v := n.checks.Member(check)
	result := record.CheckResult(v.Member("result").Text())
	if n.reversed == check {
		result = opposite(result)
	}
	switch shown := v.Member("claimed").Raw(); {
	case shown != nil:
		return shown
	case result == record.ResultMatch || result == record.ResultClaimed:
		return effective.Raw()
	}
	return nil
}

// opposite returns computed for match, and match for every other result. The two results differ
// only in what the writer did: match means that it claimed the hash, and computed means that it did
// not.
func opposite(result record.CheckResult) record.CheckResult {
	if result == record.ResultMatch {
		return record.ResultComputed
	}
	return record.ResultMatch
}

func (n *normalForm) ipc() {
	n.copy("environment", "max_tokens", "model", "payload_schema", "temperature")
	n.documents("payload")
	n.texts("system_prompt", "output")
	n.claims("input_hash", "system_prompt_hash", "output_hash", "ipc_id", "ipc_id_advanced")
	usage := n.record.Member("usage").Raw()
	if usage == nil {
		usage = n.json("usage")
	}
	n.add("usage", usage)
	n.add("seed", n.seed())
}

// seed returns the record's seed, or nil if the payload contains the same seed.
func (n *normalForm) seed() []byte {
	seed := n.record.Member("seed").Raw()
	payload, given := n.content["payload"]
	if !given || seed == nil {
		return seed
	}
	if err := n.document.Parse(payload); err != nil {
		n.err = err
		return seed
	}
	if bytes.Equal(seed, record.AppendPayloadSeed(nil, n.document.Root(), string(n.record.Member("payload_schema").Text()))) {
		return nil
	}
	return seed
}

func (n *normalForm) run() {
	n.documents("dag", "inputs", "reject_inputs", "messages", "policy", "verifier_policy", "source_roots", "evidence")
	n.texts("question", "answer_text")
	n.claims("cache_key")
	if mode := n.record.Member("question_mode"); string(mode.Text()) == rules.QuestionModeStrict {
		n.add("question_mode", mode.Raw())
	}
	dimensions := n.record.Member("cache_dimensions")
	if dimensions.Kind() == pyjson.Absent {
		return
	}
	var members []member
	for _, name := range slices.Sorted(slices.Values(rules.CacheDimensions[:])) {
		if v := dimensions.Member(name); v.Kind() != pyjson.Absent {
			members = append(members, member{name, n.dimension(name, v)})
		}
	}
	n.add("cache_dimensions", appendObject(nil, members))
}

// unknownText stands for a text that the event leaves out. It is a lone surrogate in WTF-8, which
// no event contains.
var unknownText = []byte("\"\xED\xA0\x80\"")

// dimension returns a dimension of the cache key as the writer claimed it. The value in the event
// can differ, because the ledger may have recomputed a claimed hash.
func (n *normalForm) dimension(name string, value pyjson.Value) []byte {
	if value.Kind() == pyjson.Null && rules.IsVersionDimension(name) {
		return unknownText
	}
	for _, check := range [...]string{"cache_dimensions." + name, name} {
		v := n.checks.Member(check)
		if claim := v.Member("claimed").Raw(); claim != nil {
			return claim
		}
		if v.Kind() != pyjson.Absent {
			break
		}
	}
	return value.Raw()
}

func (n *normalForm) path() {
	n.copy("project", "build", "branch", "base", "route")
	if version := n.record.Member("hash_version"); string(version.Text()) != rules.FingerprintVersion {
		n.add("hash_version", version.Raw())
	}
	n.texts("content")
	n.claims("path_id", "content_fingerprint", "raw_content_fingerprint")
}

func (n *normalForm) citations() {
	n.copy("subject")
	list, i := []byte{'['}, 0
	for c := range n.record.Member("citations").Elements() {
		name := "citations/" + strconv.Itoa(i)
		if i++; i > 1 {
			list = append(list, ',')
		}
		section := c.Member("section").Raw()
		if c.Member("section").Kind() == pyjson.Null {
			section = nil
		}
		list = appendObject(list, []member{
			{"chunk_hash", n.claim(name+"/chunk_hash", c.Member("chunk_hash"))}, {"section", section},
			{"source_id", c.Member("source_id").Raw()}, {"text", n.text(name + "/text")}, {"weight", c.Member("weight").Raw()},
		})
	}
	n.add("citations", append(list, ']'))
}

// escapeSurrogates makes canonical JSON in WTF-8 parsable by replacing lone surrogates with
// escapes. Lone surrogates occur only in strings.
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
