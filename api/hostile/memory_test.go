package hostile_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// memory holds values that clients have found in answers and can use in later requests.
type memory struct {
	contract *contract
	mu       sync.Mutex
	seen     map[place][]string // guarded by mu
}

// place is the ledger and the member name for which a value was seen.
type place struct{ ledger, name string }

// remembered is the maximum number of values kept for each place. Once it is reached, each new
// value replaces a random one.
const remembered = 128

func newMemory(c *contract) *memory { return &memory{contract: c, seen: make(map[place][]string)} }

func (m *memory) keep(r *rand.Rand, ledger, name, text string) {
	if text == "" || len(text) > 4096 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	at := place{ledger, name}
	if len(m.seen[at]) < remembered {
		m.seen[at] = append(m.seen[at], text)
		return
	}
	m.seen[at][r.IntN(remembered)] = text
}

// recall returns a random value that was seen under one of the names in a ledger. It returns false
// if there is none.
func (m *memory) recall(r *rand.Rand, ledger string, names ...string) (string, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, i := range r.Perm(len(names)) {
		if list := m.seen[place{ledger, names[i]}]; len(list) > 0 {
			return list[r.IntN(len(list))], true
		}
	}
	return "", false
}

// together lists the pairs of members that have a meaning only in combination.
var together = [][2]string{{"project", "path_id"}, {"project", "build"}, {"by", "value"}, {"version", "file"}}

// pairSeparator separates the two names of a pair in place.name, and also the two values of the
// pair.
const pairSeparator = "\x00"

// learn remembers the values in a JSON text, or in lines of JSON, under the names of their members.
func (m *memory) learn(r *rand.Rand, ledger string, text []byte) {
	for line := range bytes.Lines(text) {
		decoder := json.NewDecoder(bytes.NewReader(line))
		decoder.UseNumber()
		var v any
		if decoder.Decode(&v) == nil {
			m.walk(r, ledger, "", v)
		}
	}
}

func (m *memory) walk(r *rand.Rand, ledger, name string, v any) {
	switch v := v.(type) {
	case string:
		m.keep(r, ledger, name, v)
		if strings.HasPrefix(v, "/v1/") {
			m.keepLink(r, ledger, v)
		}
	case json.Number:
		m.keep(r, ledger, name, v.String())
	case []any:
		for _, item := range v {
			m.walk(r, ledger, name, item)
		}
	case map[string]any:
		for _, member := range slices.Sorted(maps.Keys(v)) {
			m.walk(r, ledger, member, v[member])
		}
		m.relate(r, ledger, v)
	}
}

// keepLink remembers a link under the operation that the link invokes.
func (m *memory) keepLink(r *rand.Rand, ledger, link string) {
	if op, _ := m.contract.find(http.MethodGet, link); op != nil {
		m.keep(r, ledger, linkTo(op), link)
	}
}

func linkTo(op *operation) string { return "link to " + op.OperationID }

// relate remembers values that occur together in an object:
//   - each pair listed in together
//   - the seq, under the kind of the record
//   - the ID of the producer
//   - each label with its value
func (m *memory) relate(r *rand.Rand, ledger string, object map[string]any) {
	for _, pair := range together {
		a, _ := object[pair[0]].(string)
		if b, _ := object[pair[1]].(string); a != "" && b != "" {
			m.keep(r, ledger, pair[0]+pairSeparator+pair[1], a+pairSeparator+b)
		}
	}
	kind, _ := object["kind"].(string)
	if seq, isNumber := object["seq"].(json.Number); isNumber && kind != "" {
		m.keep(r, ledger, "seq of "+kind, seq.String())
	}
	if producer, isObject := object["producer"].(map[string]any); isObject {
		if id, isText := producer["id"].(string); isText {
			m.keep(r, ledger, "producer", id)
		}
	}
	if labels, isObject := object["labels"].(map[string]any); isObject {
		for name, v := range labels {
			if text, isText := v.(string); isText {
				m.keep(r, ledger, "label", name+pairSeparator+text)
			}
		}
	}
}
