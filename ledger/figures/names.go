package figures

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"colophon/client/wire"
	"colophon/ledger/event"
	"colophon/proofs"
)

// NameFinder finds names for the hashes in one answer. A name consists of words by which people can
// recognise the hashed text (spec: Names). A NameFinder is not safe for concurrent use.
type NameFinder struct {
	Log   Log    // ledger that contains the hashes
	Cache *Cache // keeps names for later answers; must not be nil
	// MayReadContent is true if the caller may read content. If it is false, names contain no words of
	// content.
	MayReadContent bool

	read    uint64 // size of the texts that were read, in bytes
	decoder event.Decoder
}

const (
	// maxNamed is the maximum size, in bytes, of a text that is read to find its name.
	maxNamed = 256 << 10
	// maxNames is the maximum total size, in bytes, of the texts that are read for one answer.
	// Texts beyond this limit do not get names.
	maxNames = 16 << 20
)

// contentOfHash maps the name of a record's hash to the name of the content that the hash covers.
var contentOfHash = map[string]string{
	"input": ContentPayload, "input_hash": ContentPayload, "ipc_id": ContentPayload, "system_prompt_hash": ContentSystemPrompt, "output_hash": ContentOutput,
	"question_hash": "question", "cache_key": "question", "governance_policy_hash": "policy", "verifier_policy_hash": "verifier_policy",
}

// objects contains the names of content that is a JSON object.
var objects = map[string]bool{ContentPayload: true, "policy": true, "verifier_policy": true}

// promptLabels are the labels that commonly name a system prompt, starting with the most specific.
var promptLabels = [...]string{"prompt", "system_prompt", "config"}

// GroupName returns a name for the value that a group of records has in common. It returns nil if
// it finds no name, or if the value is not a hash. by is the name of that value, such as
// input_hash, and first and last are the seqs of two of the records.
func (n *NameFinder) GroupName(ctx context.Context, by string, first, last uint64) (*wire.ReadableName, error) {
	content, is := contentOfHash[by]
	if !is {
		return nil, nil
	}
	name, labels, err := n.nameContent(ctx, last, content)
	if err != nil || first == last && by != "system_prompt_hash" || name != nil && by != "system_prompt_hash" {
		return name, err
	}
	other, otherLabels, err := n.nameContent(ctx, first, content)
	if err != nil {
		return nil, err
	}
	if name == nil { // the last record can lack a text that the first has
		name = other
	}
	if by != "system_prompt_hash" {
		return name, nil
	}
	for _, label := range promptLabels {
		if value := labels[label]; value != "" && value == otherLabels[label] {
			if name == nil {
				name = new(wire.ReadableName)
			}
			name.Label = value
			return name, nil
		}
	}
	return name, nil
}

// nameContent returns a name for one piece of content of a record. It also returns the labels of the
// record that can name its system prompt.
func (n *NameFinder) nameContent(ctx context.Context, seq uint64, content string) (name *wire.ReadableName, labels map[string]string, err error) {
	e, err := n.event(ctx, seq)
	if err != nil {
		return nil, nil, err
	}
	labels = make(map[string]string)
	for label, value := range e.Labels() {
		for _, known := range promptLabels {
			if string(label) == known {
				words, _ := firstWords(value)
				labels[known] = words
			}
		}
	}
	names, err := n.texts(ctx, e, content)
	return names[0], labels, err
}

// RunNames returns readable names for the texts that went into an IPC record, and for its output.
func (n *NameFinder) RunNames(ctx context.Context, seq uint64) (*wire.RunNames, error) {
	e, err := n.event(ctx, seq)
	if err != nil {
		return nil, err
	}
	ipc := e.IPC()
	run := &wire.RunNames{Model: string(ipc.Model), Temperature: json.Number(ipc.Temperature)}
	names, err := n.texts(ctx, e, ContentPayload, ContentSystemPrompt, ContentOutput)
	run.Input, run.SystemPrompt, run.Output = names[0], names[1], names[2]
	return run, err
}

// TextName returns a readable name for the text covered by one of a record's hashes. hash is the
// name of that hash, such as output_hash.
func (n *NameFinder) TextName(ctx context.Context, seq uint64, hash string) (*wire.ReadableName, error) {
	e, err := n.event(ctx, seq)
	if err != nil {
		return nil, err
	}
	names, err := n.texts(ctx, e, contentOfHash[hash])
	return names[0], err
}

// RecordName returns a readable name for a record: the first words of its instruction (IPC record),
// question (run-DAG), subject (citation set), or project and route (path fingerprint). It returns
// nil for other kinds of events, and if it finds no words that the caller may read.
func (n *NameFinder) RecordName(ctx context.Context, seq uint64) (*wire.ReadableName, error) {
	e, err := n.event(ctx, seq)
	if err != nil {
		return nil, err
	}
	content := ""
	switch wire.Kind(e.Kind) {
	case wire.KindIPCRecord:
		content = ContentPayload
	case wire.KindRunDAG:
		content = "question"
	case wire.KindCitationSet:
		return NameFromText(e.CitationSet().Subject), nil
	case wire.KindPathFingerprint:
		path := e.PathFingerprint()
		return NameFromText([]byte(string(path.Project) + ": " + string(bytes.Join(path.Passages, []byte(" → "))))), nil
	default:
		return nil, nil
	}
	names, err := n.texts(ctx, e, content)
	return names[0], err
}

// event reads the event at seq. The result is valid until the next call.
func (n *NameFinder) event(ctx context.Context, seq uint64) (*event.Event, error) {
	entry, err := n.Log.Entry(ctx, seq)
	if err != nil {
		return nil, fmt.Errorf("reading entry %d: %w", seq, err)
	}
	e, err := n.decoder.Decode(entry)
	if err != nil {
		return nil, fmt.Errorf("reading event %d: %w", seq, err)
	}
	return &e, nil
}

// texts returns names for the given pieces of content of a record, in the same order. A name is nil
// if the record was posted without the text or is redacted, if the text is too long, or if the
// caller may not read content.
func (n *NameFinder) texts(ctx context.Context, e *event.Event, contents ...string) (names []*wire.ReadableName, err error) {
	names = make([]*wire.ReadableName, len(contents))
	if !n.MayReadContent {
		return names, nil
	}
	found := false
	for c := range e.Contents() {
		for i, content := range contents {
			if string(c.Name) != content {
				continue
			}
			if names[i], err = n.text(ctx, content, c); err != nil {
				// The read can fail because a redaction erased the content. This is not an error.
				if by, gone := n.Log.RedactedBy(ctx, e.Seq); gone == nil && by != nil {
					return make([]*wire.ReadableName, len(contents)), nil
				}
				return names, fmt.Errorf("reading content %q of event %d: %w", content, e.Seq, err)
			}
			found = found || names[i] != nil
		}
	}
	if !found {
		return names, nil
	}
	// Look for redactions only after reading the texts, to detect one that was made in the meantime.
	by, err := n.Log.RedactedBy(ctx, e.Seq)
	if err != nil || by != nil {
		return make([]*wire.ReadableName, len(contents)), err
	}
	return names, nil
}

// text returns a name for one text, or nil if the text is too long or has no words.
func (n *NameFinder) text(ctx context.Context, content string, c event.Content) (*wire.ReadableName, error) {
	key := nameKey{n.Log.Name(), c.Digest, objects[content]}
	if name, cached := n.Cache.names.Get(key); cached {
		return copyOf(name), nil
	}
	if c.Size > maxNamed || n.read+c.Size > maxNames {
		return nil, nil
	}
	n.read += c.Size
	text, err := n.Log.Content(ctx, c.Digest)
	if err != nil {
		return nil, err
	}
	if key.object {
		text = instruction(text)
	}
	name := NameFromText(text)
	n.Cache.names.Add(key, name)
	return copyOf(name), nil
}

// copyOf returns a copy of a cached name, because the caller may add a label to it.
func copyOf(name *wire.ReadableName) *wire.ReadableName {
	if name == nil {
		return nil
	}
	own := *name
	return &own
}

// nameKey is the key of a cached name. It contains the ledger because ledgers do not share names.
// It contains object because a JSON object and a plain text with the same bytes have different
// names.
type nameKey struct {
	ledger string
	digest proofs.Hash
	object bool
}

// ContainsWords reports whether words occurs at the beginning of a word in the name, or anywhere in
// its label, ignoring case. words must be in lower case.
func ContainsWords(name *wire.ReadableName, words string) bool {
	if name == nil {
		return false
	}
	text := strings.ToLower(name.Words)
	return strings.HasPrefix(text, words) || strings.Contains(text, " "+words) || strings.Contains(strings.ToLower(name.Label), words)
}
