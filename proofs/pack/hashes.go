package pack

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"colophon/ledger/record"
	"colophon/ledger/record/pyjson"
)

// ErrHashes: the hashes in an event are not those of its content.
var ErrHashes = errors.New("pack: hashes are not those of the content")

// recomputable reports whether the record of an event can be made anew from its content
// and from what the event says of it: not where the rules are other ones, or where a text
// that is hashed is in neither of the two (a version too long for the event).
func recomputable(event pyjson.Value) bool {
	for _, dimension := range event.Member("record").Member("cache_dimensions").Members() {
		if !dimension.Given() {
			return false
		}
	}
	kind := record.Kind(event.Member("kind").Text())
	return slices.Contains(record.Kinds[:], kind) && string(event.Member("rules").Raw()) == strconv.Itoa(record.Rules)
}

// recompute makes the record of an event anew and compares every hash. All content must
// be there.
func recompute(event pyjson.Value, content map[string][]byte) error {
	members, kind := event.Member("record"), record.Kind(event.Member("kind").Text())
	r, err := record.NoLimits().Parse(kind, posted(kind, members, content))
	if err != nil {
		return fmt.Errorf("%w: they make no record: %w", ErrHashes, err)
	}
	defer r.Release()
	var document pyjson.Document
	body := record.AppendSuffix(r.AppendBody(nil, record.Event{}), 0, time.Time{})
	if err := document.Parse(body); err != nil {
		return fmt.Errorf("recomputing the event: %w", err)
	}
	anew := document.Root().Member("record")
	for _, list := range []string{"nodes", "citations"} {
		if says, computed := members.Member(list), anew.Member(list); !bytes.Equal(says.Raw(), computed.Raw()) {
			return fmt.Errorf("%w: %s: the event says %.300s, computed %.300s", ErrHashes, list, says.Raw(), computed.Raw())
		}
	}
	for _, hashes := range []pyjson.Value{members.Member("hashes"), anew.Member("hashes")} {
		for name := range hashes.Members() {
			says, computed := members.Member("hashes").Member(string(name.Text())), anew.Member("hashes").Member(string(name.Text()))
			// Null is as good as absent: a claim that nothing came of leaves one or the other.
			if says.Given() != computed.Given() || says.Given() && !bytes.Equal(says.Raw(), computed.Raw()) {
				return fmt.Errorf("%w: %.100q: the event says %.100s, computed %.100s", ErrHashes, name.Text(), says.Raw(), computed.Raw())
			}
		}
	}
	return nil
}

// fields are members that a record of a kind and its event have alike.
var fields = map[record.Kind][]string{
	record.IPCRecord:       {"model", "temperature", "max_tokens", "seed", "environment", "payload_schema"},
	record.RunDAG:          {"question_mode", "cache_dimensions"},
	record.CitationSet:     {"subject"},
	record.PathFingerprint: {"project", "build", "route"},
}

// claims are hashes that a record may bring, and is given from its event: of those that
// can be computed nothing but an agreement comes out.
var claims = map[record.Kind][]string{
	record.IPCRecord:       {"input_hash", "system_prompt_hash", "output_hash", "ipc_id", "ipc_id_advanced"},
	record.RunDAG:          {"cache_key"},
	record.PathFingerprint: {"path_id", "content_fingerprint", "raw_content_fingerprint"},
}

// texts are names of content that is text; all other content is JSON.
var texts = map[string]bool{"system_prompt": true, "output": true, "question": true, "answer_text": true, "content": true}

// posted is a record as somebody may have posted it.
func posted(kind record.Kind, members pyjson.Value, content map[string][]byte) []byte {
	body := []byte{'{'}
	add := func(name string, value []byte) {
		if value != nil {
			body = append(append(append(pyjson.AppendString(body, []byte(name)), ':'), value...), ',')
		}
	}
	for _, name := range fields[kind] {
		add(name, members.Member(name).Raw())
	}
	for _, name := range claims[kind] {
		add(name, members.Member("hashes").Member(name).Raw())
	}
	if kind == record.CitationSet {
		add("citations", citations(members.Member("citations"), content))
	} else {
		for name, value := range content {
			if texts[name] {
				value, _ = pyjson.AppendEscaped(nil, value) // what is no text makes no record
			}
			add(name, value)
		}
	}
	return append(bytes.TrimSuffix(body, []byte(",")), '}')
}

// citations are those of a set, with their texts.
func citations(list pyjson.Value, content map[string][]byte) []byte {
	body, i := []byte{'['}, 0
	for c := range list.Elements() {
		if i > 0 {
			body = append(body, ',')
		}
		raw := c.Raw()
		body = append(body, raw[:len(raw)-1]...)
		if text, found := content[fmt.Sprintf("citations/%d/text", i)]; found {
			body, _ = pyjson.AppendEscaped(append(body, `,"text":`...), text) // as above
		}
		body = append(body, '}')
		i++
	}
	return append(body, ']')
}
