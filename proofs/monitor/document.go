package monitor

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"colophon/internal/cli"
	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
	"colophon/proofs"
)

// redactedByHeader names the event that has erased the texts of a citations document.
const redactedByHeader = "Colophon-Redacted-By"

// compareDocument compares a citations document (spec: Citations document) with the event of its
// set. The copy has no content: a text is right if it has the digest that the event names.
func (c *Comparer) compareDocument(q Question, got *AnswerPage) (answer ComparedAnswer) {
	wrong := func(row, message, expected, got string) ComparedAnswer {
		return ComparedAnswer{Finding: c.finding(q, row, message, expected, got)}
	}
	seq, err := strconv.ParseUint(strings.Split(q.Path, "/")[2], 10, 64)
	if err != nil {
		return ComparedAnswer{Err: err}
	}
	entry, err := c.entry(seq)
	if err != nil {
		return ComparedAnswer{Err: err}
	}
	var document pyjson.Document
	if err := document.Parse(entry[proofs.HashSize:]); err != nil {
		return ComparedAnswer{Err: fmt.Errorf("event %d: %w", seq, err)}
	}
	if q.AsOf > 0 && q.AsOf <= seq {
		if got.Status != http.StatusNotFound {
			return wrong("", "the answer has another status", "404", got.says())
		}
		return answer
	}
	if got.Status != http.StatusOK {
		return wrong("", "the answer has another status", "200", got.says())
	}
	for i, expected := range [...]string{"application/json", ""} {
		if value := headerValue(got.header, answerHeaders[i]); value != expected {
			return wrong(answerHeaders[i], "the header differs", expected, value)
		}
	}
	redacted := strings.Join(got.header.Values(redactedByHeader), ",")
	by, known := c.redactions[seq]
	switch known = known && by < got.known; {
	case known && redacted != cli.Decimal(by):
		return wrong(redactedByHeader, "the header differs", cli.Decimal(by), redacted)
	case !known && redacted != "":
		by, err := strconv.ParseUint(redacted, 10, 64)
		if err != nil {
			return wrong(redactedByHeader, "no such event redacts the record", "", redacted)
		}
		c.saysRedacted(q, seq, by)
	}
	expected, err := documentOf(document.Root().Member("record"), got.Document.Root(), redacted != "")
	if err != nil {
		return wrong("", err.Error(), "", string(got.Body))
	}
	if !bytes.Equal(expected, got.Body) {
		return wrong("", "it differs", string(expected), string(got.Body))
	}
	return answer
}

// documentOf makes a citations document from the event of a set, with texts out of another,
// which have to be those of the event; without if it was redacted.
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
				return nil, fmt.Errorf("the text of citation %d is left out", i)
			}
			citation.Text = append([]byte{}, given[i].Member("text").Text()...)
			if sum := sha256.Sum256(citation.Text); fmt.Sprintf("%x", sum) != string(named.Text()) {
				return nil, fmt.Errorf("the text of citation %d does not have the digest that the event names", i)
			}
		}
		citations = append(citations, citation)
		i++
	}
	return rules.AppendCitationsDocument(nil, citations), nil
}
