// Package rerun generates the output of an IPC record again under the recorded conditions,
// posts each new output to the ledger, and counts how many equal the recorded output.
package rerun

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"

	"colophon/client"
	"colophon/client/wire"
	"colophon/internal/cli"
)

// Record is an IPC (interpretive provenance chain) record, with the content that is needed to
// generate its output again.
type Record struct {
	Seq              uint64
	State            wire.State
	MismatchedFields []string // names of the fields whose claims are wrong, sorted
	Event            *wire.IPCRecordEvent
	Payload          json.RawMessage // a JSON object, as it was posted
	// SystemPrompt is nil if the record has none.
	SystemPrompt *string
}

// FetchRecord fetches a record and its content. It returns errors from package client unchanged.
func FetchRecord(ctx context.Context, from *client.Ledger, seq uint64) (*Record, error) {
	row, err := from.Records.Get(ctx, seq, nil)
	if err != nil {
		return nil, err
	}
	if row.Kind != wire.KindIPCRecord {
		return nil, cli.ExitErrorf(cli.ExitFailed, "event %d is of kind %.60s, which does not specify a model to run; give the seq of an ipc_record", seq, row.Kind)
	}
	body, err := wire.ParseEvent(row.Event)
	if err != nil {
		return nil, err
	}
	r := &Record{Seq: seq, State: row.State, Event: new(wire.IPCRecordEvent)}
	if err := json.Unmarshal(body.Record, r.Event); err != nil {
		return nil, fmt.Errorf("reading event %d: %w", seq, err)
	}
	for field, check := range row.Checks {
		if check.Result == wire.CheckResultMismatch {
			r.MismatchedFields = append(r.MismatchedFields, field)
		}
	}
	slices.Sort(r.MismatchedFields)
	if err := r.requireContent(row.RedactedBy); err != nil {
		return nil, err
	}
	return r, r.readContent(ctx, from)
}

// requireContent returns an error if the ledger lacks content that is needed to generate the
// record's output again.
func (r *Record) requireContent(redactedBy *uint64) error {
	missing := func(content, hash string) error {
		return cli.ExitErrorf(cli.ExitFailed, "event %d was posted with %s only, so the ledger does not have its %s; give the seq of a record that was posted with its %s", r.Seq, hash, content, content)
	}
	switch {
	case redactedBy != nil:
		return cli.ExitErrorf(cli.ExitFailed, "event %d erased the content of event %d, including the prompt; give the seq of a record that still has its content", *redactedBy, r.Seq)
	case r.Event.Hashes.Get("output_hash") == "":
		return cli.ExitErrorf(cli.ExitFailed, "event %d has no output to compare new outputs with; give the seq of a record with an output", r.Seq)
	case !r.has("payload"):
		return missing("payload", "input_hash")
	case !r.has("system_prompt") && r.Event.Hashes.Get("system_prompt_hash") != "":
		return missing("system_prompt", "system_prompt_hash")
	}
	return nil
}

func (r *Record) has(content string) bool {
	_, has := r.Event.Content[content]
	return has
}

func (r *Record) readContent(ctx context.Context, from *client.Ledger) error {
	payload, err := r.content(ctx, from, "payload")
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(bytes.TrimLeft(payload, " \t\r\n"), []byte("{")) || !json.Valid(payload) {
		return fmt.Errorf("the payload of event %d is not a JSON object", r.Seq)
	}
	r.Payload = payload
	if !r.has("system_prompt") {
		return nil
	}
	prompt, err := r.content(ctx, from, "system_prompt")
	if err != nil {
		return err
	}
	r.SystemPrompt = new(string(prompt))
	return nil
}

// content fetches a piece of content and checks it against the digest in the event.
func (r *Record) content(ctx context.Context, from *client.Ledger, name string) ([]byte, error) {
	text, err := from.Records.Content(ctx, r.Seq, name)
	if err != nil {
		return nil, err
	}
	digest := sha256.Sum256(text)
	if want := r.Event.Content[name].SHA256; hex.EncodeToString(digest[:]) != want || !utf8.Valid(text) {
		return nil, fmt.Errorf("the %s that the server returned for event %d is not UTF-8, or does not match the SHA-256 %.64s in the event; to check the server, run colophon audit --content", name, r.Seq, want)
	}
	return text, nil
}

// outputHash returns the effective hash of the recorded output.
func (r *Record) outputHash() string { return r.Event.Hashes.Get("output_hash") }
