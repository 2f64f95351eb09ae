package audit

import (
	"strconv"

	"colophon/ledger/record"
	"colophon/ledger/record/rules"
)

// checkCommon checks what the records of all kinds have, notes whether the record names
// content, and notes its key.
func (w *walk) checkCommon(e *decoded) error {
	if len(e.Common.Contents) > 0 {
		e.facts |= hasContent
	}
	if e.Common.RunID != nil && e.Common.Key == nil {
		return e.damaged("it has a run_id, but no idempotency key")
	}
	if err := w.use(e, e.Kind); err != nil || e.Common.RunID == nil {
		return err
	}
	w.countKey(e.Kind, e.Common.RunID)
	return nil
}

// checkCitations checks a citation set (spec: Citation set).
func checkCitations(c *claims) error {
	e, texts := c.e, 0
	for i, citation := range e.Set.Citations {
		name := "citations/" + strconv.Itoa(i)
		from := e.from(name + "/text")
		if from == computed {
			texts++
		}
		if err := c.check(field{name: name + "/chunk_hash", effective: citation.ChunkHash, from: from, form: rules.IsChunkHash}); err != nil {
			return err
		}
	}
	if n := len(e.Common.Contents); n != texts {
		return e.damaged("it names %d pieces of content, %d of them texts of its citations", n, texts)
	}
	return nil
}

// checkPath checks a path fingerprint (spec: Path fingerprint).
func checkPath(c *claims) error {
	e, f := c.e, &c.e.Path
	id := f.PathID
	if check := e.CheckOf("path_id"); check != nil && check.Result == record.Computed && len(id) != rules.PathIDDigits {
		return checkDamaged(e.seq, "path_id", "it has %d digits, though none were claimed", len(id))
	}
	for _, f := range [...]field{
		{name: "path_id", effective: id, from: computed, recomputed: rules.RouteID(f.Passages)[:len(id)], form: digitsOf(len(id))},
		{name: "content_fingerprint", effective: f.ContentFingerprint, from: e.from("content"), form: digitsOf(rules.FingerprintDigits)},
		{name: "raw_content_fingerprint", effective: f.RawContentFingerprint, from: e.from("content"), form: digitsOf(rules.FingerprintDigits)},
	} {
		if err := c.check(f); err != nil {
			return err
		}
	}
	return nil
}
