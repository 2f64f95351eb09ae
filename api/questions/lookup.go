package questions

import (
	"encoding/json"
	"fmt"

	"colophon/api/call"
	"colophon/ledger"
	"colophon/ledger/query"
	"colophon/ledger/record"
	"colophon/ledger/record/pyjson"
	"colophon/proofs"
)

// LookUpRunDAG sends the latest live run-DAG whose cache key matches the question and the other dimensions in the
// request, and the answer of the run-DAG. It tries the strict question first, and then its equivalence class.
func (h *Handlers) LookUpRunDAG(c *call.Call) error {
	body, err := c.ReadQueryBody()
	if err != nil {
		return err
	}
	defer body.Release()
	if err := c.BeginDecoding(body); err != nil {
		return err
	}
	modes, err := record.DecodeCacheLookup(body.Bytes())
	if err != nil {
		return err
	}
	_, view, err := h.openView(c, &query.CacheLookupQuestion, nil, c.Request().URL.RawQuery)
	if err != nil {
		return err
	}
	defer view.Close()
	found, err := query.RunDAGByQuestion(view, modes)
	if err != nil {
		return err
	}
	if err := c.BeginAnswer(12 * h.MaxContentBytes()); err != nil { // for the content, its parsed form, and the answer
		return err
	}
	l, err := c.Ledger()
	if err != nil {
		return err
	}
	text, err := answerOf(view, l, found.Seq)
	by, err := redactedSince(view.Context, l, found.Seq, err)
	switch {
	case err != nil:
		return err
	case by != nil:
		text = null
	}
	found.AnswerText, found.RedactedBy = text, by
	return sendAnswer(c, view, found)
}

var null = json.RawMessage("null")

// answerOf returns the answer of a run-DAG as JSON, or null if it has none.
func answerOf(view *query.View, l *ledger.Ledger, seq uint64) (json.RawMessage, error) {
	entry, err := view.Log.Entry(view.Context, seq)
	if err != nil {
		return nil, fmt.Errorf("reading entry %d: %w", seq, err)
	}
	var event eventContent
	if err := json.Unmarshal(entry[proofs.HashSize:], &event); err != nil {
		return nil, fmt.Errorf("parsing event %d: %w", seq, err)
	}
	for _, name := range [...]string{"answer_text", "inputs", "reject_inputs"} {
		named, ok := event.Record.Content[name]
		if !ok {
			continue
		}
		digest, err := proofs.ParseHash(named.SHA256)
		if err != nil {
			return nil, fmt.Errorf("event %d: parsing the digest of content %q: %w", seq, name, err)
		}
		text, err := l.Reader().Content(view.Context, digest)
		if err != nil {
			return nil, fmt.Errorf("reading content %q of event %d: %w", name, seq, err)
		}
		if name != "answer_text" {
			if text, ok = answerWithin(text); !ok {
				continue
			}
		}
		if quoted, ok := pyjson.AppendUTF8String(nil, text); ok {
			return quoted, nil
		}
		return nil, fmt.Errorf("content %q of event %d is not WTF-8", name, seq)
	}
	return null, nil
}
