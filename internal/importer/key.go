package importer

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strconv"

	"colophon/ledger/record/pyjson"
)

// keyer adds idempotency keys to lines that have none (spec: Idempotency). A key consists of the
// digest of a line's kind and record, followed by the number of lines with that digest so far. A
// keyer is not safe for concurrent use.
type keyer struct {
	document pyjson.Document
	scratch  []byte
	// seen maps each digest to the number of lines with that digest that were given a key.
	seen map[[sha256.Size]byte]uint64
}

func newKeyer() *keyer { return &keyer{seen: make(map[[sha256.Size]byte]uint64)} }

// complete sets the kind of a line, and adds a key if the line has neither a key nor a run_id. It
// leaves a malformed line unchanged, so that the server refuses it. kind is the kind of a record
// that is not wrapped in a batch line; if kind is empty, complete returns an error for such a
// record.
func (k *keyer) complete(l *line, kind string) error {
	if k.document.Parse(l.text) != nil {
		return nil
	}
	root := k.document.Root()
	if isAlone(root) {
		if kind == "" {
			return errAlone
		}
		l.text = append(append(append(append([]byte(`{"kind":`), pyjson.AppendString(nil, []byte(kind))...), `,"record":`...), root.Raw()...), '}')
		if err := k.document.Parse(l.text); err != nil {
			return err
		}
		root = k.document.Root()
	}
	k.addKey(l, root)
	return nil
}

var errAlone = errors.New(`the record has no kind; use --kind ipc_record, or wrap the record: {"kind": "ipc_record", "record": {…}}`)

// isAlone reports whether root is a record that is not wrapped in a batch line.
func isAlone(root pyjson.Value) bool {
	for _, name := range [...]string{"kind", "record", "format", "idempotency_key"} {
		if root.Member(name).Kind() != pyjson.Absent {
			return false
		}
	}
	return root.Kind() == pyjson.Object
}

// addKey sets the kind of a line, and adds a key if it needs one.
func (k *keyer) addKey(l *line, root pyjson.Value) {
	kind, record := root.Member("kind"), root.Member("record")
	l.kind, l.format = string(kind.Text()), root.Member("format").IsGiven()
	if kind.Kind() != pyjson.String || record.Kind() != pyjson.Object || !onlyLineMembers(root) ||
		identifies(root.Member("idempotency_key")) || identifies(record.Member("run_id")) {
		return
	}
	key := k.next(kind, record)
	// The line is rewritten because, if it has an idempotency_key that is null, appending the key
	// would result in two members with that name.
	text := slices.Grow([]byte(nil), len(l.text)+len(key)+len(`{"kind":,"record":,"idempotency_key":""}`))
	text = append(append(text, `{"kind":`...), kind.Raw()...)
	text = append(append(text, `,"record":`...), record.Raw()...)
	text = append(append(text, `,"idempotency_key":"`...), key...)
	l.text = append(text, `"}`...)
}

// identifies reports whether a value can serve as an idempotency key or run_id. This includes
// values of the wrong type, which the server refuses.
func identifies(v pyjson.Value) bool {
	return v.IsGiven() && !(v.Kind() == pyjson.String && len(v.Text()) == 0)
}

func onlyLineMembers(root pyjson.Value) bool {
	for name := range root.Members() {
		switch string(name.Text()) {
		case "kind", "record", "idempotency_key":
		default:
			return false
		}
	}
	return true
}

// next returns import:<digest>:<n> for the nth record with this digest, counted from 1.
func (k *keyer) next(kind, record pyjson.Value) []byte {
	k.scratch = append(append(k.scratch[:0], kind.Text()...), 0)
	k.scratch = record.AppendCanonical(k.scratch, pyjson.CompactForm)
	digest := sha256.Sum256(k.scratch)
	k.seen[digest]++
	key := hex.AppendEncode([]byte("import:"), digest[:])
	return strconv.AppendUint(append(key, ':'), k.seen[digest], 10)
}
