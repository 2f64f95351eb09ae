package replay

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
	"colophon/proofs"
)

// redactedByHeader is the header of a citations document whose texts have been erased. Its value is
// the seq of the redacting event.
const redactedByHeader = "Colophon-Redacted-By"

// compareDocument compares a citations document (docs/spec: Citations document) with the event of
// its citation set. The copy of the log has no content, so compareDocument accepts a text if its
// digest matches the digest in the event.
func (c *comparer) compareDocument(ctx context.Context, q question, got *answerPage) (result comparison) {
	wrong := func(row, message, expected, got string) comparison {
		return comparison{finding: findingOf(q, row, message, expected, got)}
	}
	seq, err := strconv.ParseUint(strings.Split(q.path, "/")[2], 10, 64)
	if err != nil {
		return comparison{err: err}
	}
	entry, err := c.copy.Entry(ctx, seq)
	if err != nil {
		return comparison{err: err}
	}
	var document pyjson.Document
	if err := document.Parse(entry[proofs.HashSize:]); err != nil {
		return comparison{err: fmt.Errorf("parsing event %d of the local copy of the log: %w", seq, err)}
	}
	if q.asOf > 0 && q.asOf <= seq {
		if got.status != http.StatusNotFound {
			return wrong("", "the response has an unexpected status", "404", got.statusText())
		}
		return result
	}
	if got.status != http.StatusOK {
		return wrong("", "the response has an unexpected status", "200", got.statusText())
	}
	for i, expected := range [...]string{"application/json", ""} {
		if value := headerValue(got.header, answerHeaders[i]); value != expected {
			return wrong(answerHeaders[i], "the header has an unexpected value", expected, value)
		}
	}
	redacted := strings.Join(got.header.Values(redactedByHeader), ",")
	by, known := c.copy.RedactedBy(seq)
	switch known = known && by < got.atLeast; {
	case known && redacted != decimal(by):
		return wrong(redactedByHeader, "the header has an unexpected value", decimal(by), redacted)
	case !known && redacted != "":
		by, err := strconv.ParseUint(redacted, 10, 64)
		if err != nil {
			return wrong(redactedByHeader, "the header is not the sequence number of an event", "", redacted)
		}
		c.noteRedaction(q, seq, by)
	}
	expected, err := documentOf(document.Root().Member("record"), got.document.Root(), redacted != "")
	if err != nil {
		return wrong("", err.Error(), "", string(got.body))
	}
	if !bytes.Equal(expected, got.body) {
		return wrong("", "the document differs from the expected one", string(expected), string(got.body))
	}
	return result
}

// documentOf builds a citations document from set, the citation set in an event. It copies the
// citations' texts from the server's document texts, after checking that they match the digests in
// set. A redacted document has no texts.
func documentOf(set, texts pyjson.Value, redacted bool) ([]byte, error) {
	var citations []rules.Citation
	var given []pyjson.Value
	for one := range texts.Member("all_citations").Elements() {
		given = append(given, one)
	}
	i := 0
	for one := range set.Member("citations").Elements() {
		citation := rules.Citation{ChunkHash: one.Member("chunk_hash").Text(), SourceID: one.Member("source_id").Text(), Weight: one.Member("weight").Raw()}
		if section := one.Member("section"); section.Kind() == pyjson.String {
			citation.Section = section.Text()
		}
		named := set.Member("content").Member(fmt.Sprintf("citations/%d/text", i)).Member("sha256")
		if named.Kind() == pyjson.String && !redacted {
			if i >= len(given) || given[i].Member("text").Kind() != pyjson.String {
				return nil, fmt.Errorf("the text of citation %d is missing", i)
			}
			citation.Text = append([]byte{}, given[i].Member("text").Text()...)
			if sum := sha256.Sum256(citation.Text); fmt.Sprintf("%x", sum) != string(named.Text()) {
				return nil, fmt.Errorf("the text of citation %d does not match its digest in the event", i)
			}
		}
		citations = append(citations, citation)
		i++
	}
	return rules.AppendCitationsDocument(nil, citations), nil
}
