package replay

import (
	"bytes"
	"fmt"
	"slices"

	"colophon/ledger/record/moment"
	"colophon/ledger/record/pyjson"
	"colophon/proofs"
	"colophon/proofs/monitor"
	"colophon/proofs/replay/reference"
)

// difference returns the name and both values of the first member that differs between two answers.
// It ignores lists and their cursors.
func (c *comparer) difference(q question, expected, got *answerPage) (member string, a, b []byte, differ bool) {
	if q.form.ofServer && c.ledgerRows(got) != 1 {
		return "ledgers", []byte("one row about the ledger"), fmt.Appendf(nil, "%d", c.ledgerRows(got)), true
	}
	x, y := c.root(q, expected), c.root(q, got)
	if c.sameExceptRedaction(q, x, y, got.atLeast) {
		return "", nil, nil, false
	}
	for _, side := range [...]pyjson.Value{x, y} {
		for name := range side.Members() {
			member = string(name.Text())
			if slices.ContainsFunc(q.lists, func(l answerList) bool { return member == l.next || slices.Contains(l.members, member) }) {
				continue
			}
			a, b := x.Member(member), y.Member(member)
			if !c.sameMember(q, member, a, b) {
				return member, canonical(a), canonical(b), true
			}
		}
	}
	return "", nil, nil, false
}

// ledgerRows returns the number of rows about the audited ledger in a list of ledgers, or 0 if the
// answer is not such a list.
func (c *comparer) ledgerRows(p *answerPage) (n int) {
	for name := range p.document.Root().Members() {
		if string(name.Text()) != "ledgers" {
			return 0
		}
	}
	for row := range p.document.Root().Member("ledgers").Elements() {
		if row.Kind() != pyjson.Object {
			return 0
		}
		if string(row.Member("name").Text()) == c.copy.Name() {
			n++
		}
	}
	return n
}

// sameMember reports whether a member of an answer matches the same member of the reference's
// answer.
func (c *comparer) sameMember(q question, name string, expected, got pyjson.Value) bool {
	switch {
	case slices.Contains(q.form.serverMembers, name):
		return c.validServerMember(name, got)
	case name == "checkpoint" && q.form == consistencyForm && got.Kind() == pyjson.Absent:
		return true // the server includes a checkpoint only for the current head, and the log may have grown since
	case name == "checkpoint":
		return c.sameCheckpoint(expected, got)
	case name == "receipt" && expected.Kind() == pyjson.Object:
		return c.sameCheckpoint(expected.Member("checkpoint"), got.Member("checkpoint")) &&
			bytes.Equal(without(expected, "checkpoint"), without(got, "checkpoint"))
	}
	return bytes.Equal(canonical(expected), canonical(got))
}

// validServerMember reports whether a member that the log does not determine has a valid
// value.
func (c *comparer) validServerMember(name string, got pyjson.Value) bool {
	text := string(got.Text())
	switch name {
	case "origin":
		return text == c.origin
	case "verifier_key":
		return slices.ContainsFunc(c.keys, func(k *proofs.Verifier) bool { return k.String() == text })
	case "created":
		_, ok := moment.Parse(got.Text())
		return ok
	case "frozen":
		return got.Kind() == pyjson.True || got.Kind() == pyjson.False
	case "on_mismatch", "unregistered_sources":
		return text == "accept" || text == "reject"
	case "otlp_content":
		return text == "keep" || text == "hashes"
	case "log":
		return text == "public" || text == "private"
	case "scopes":
		return areScopes(got)
	}
	return got.Kind() != pyjson.Absent
}

// scopes lists the names of all scopes in the same order as servers do.
var scopes = []string{"write", "read", "content", "log", "admin", "metrics"}

// areScopes reports whether got is a list of scopes in the usual order, without duplicates. It
// cannot check which scopes the caller has, because the log does not contain them.
func areScopes(got pyjson.Value) bool {
	if got.Kind() != pyjson.Array {
		return false
	}
	next := 0
	for name := range got.Elements() {
		at := slices.Index(scopes, string(name.Text()))
		if name.Kind() != pyjson.String || at < next {
			return false
		}
		next = at + 1
	}
	return true
}

// sameCheckpoint reports whether got is the expected checkpoint with a valid signature by the log.
// It also returns true if both checkpoints are absent.
func (c *comparer) sameCheckpoint(expected, got pyjson.Value) bool {
	if expected.Kind() != pyjson.String || got.Kind() != pyjson.String {
		return expected.Kind() == got.Kind()
	}
	return c.isSigned(expected.Text(), got.Text())
}

// isSigned reports whether note is a checkpoint that has the given text and is signed by the log.
func (c *comparer) isSigned(text, note []byte) bool {
	checkpoint, err := proofs.OpenCheckpoint(note, c.keys...)
	return err == nil && bytes.Equal(text, reference.CheckpointText(checkpoint))
}

// compareProofs compares two .tlog-proof texts.
func (c *comparer) compareProofs(q question, expected, got *answerPage) *monitor.Finding {
	a, err := proofs.ParseTlogProof(expected.body)
	b, errGot := proofs.ParseTlogProof(got.body)
	if err != nil || errGot != nil || !bytes.Equal(a.Extra, b.Extra) || a.Index != b.Index || !slices.Equal(a.Hashes, b.Hashes) || !c.isSigned(a.Checkpoint, b.Checkpoint) {
		return findingAt(q, got, "", "the proof differs from the expected one", string(expected.body), string(got.body))
	}
	return nil
}

// compareLines compares two answers line by line.
func compareLines(q question, expected, got *answerPage) *monitor.Finding {
	a, b := bytes.SplitAfter(expected.body, []byte("\n")), bytes.SplitAfter(got.body, []byte("\n"))
	for i := range max(len(a), len(b)) {
		var x, y []byte
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if !bytes.Equal(x, y) {
			return findingAt(q, got, fmt.Sprintf("line %d", i+1), "the line differs from the expected one", string(x), string(y))
		}
	}
	return nil
}

func canonical(v pyjson.Value) []byte { return v.AppendCanonical(nil, pyjson.CompactForm) }

// without returns an object in canonical form without the named members.
func without(v pyjson.Value, names ...string) []byte {
	if v.Kind() != pyjson.Object {
		return canonical(v)
	}
	text := []byte{'{'}
	for name, value := range v.Members() {
		if !slices.Contains(names, string(name.Text())) {
			text = append(append(append(append(text, name.Raw()...), ':'), value.Raw()...), ',')
		}
	}
	var d pyjson.Document
	if d.Parse(append(bytes.TrimSuffix(text, []byte{','}), '}')) != nil {
		return canonical(v)
	}
	return canonical(d.Root())
}
