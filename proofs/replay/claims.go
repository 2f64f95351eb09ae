package replay

import (
	"bytes"
	"maps"
	"slices"
	"strconv"

	"colophon/ledger/record/pyjson"
	"colophon/proofs/monitor"
)

// redactedMember names the event that redacted a record. It is the only member of answers that
// is always current, even if the answer is as of an older size (docs/spec: Index and as_of).
// If it is present, the links to the content are absent.
const redactedMember = "redacted_by"

// claimedRedaction is the event that redacted a record, according to an answer. The copy of
// the log may not have the event yet.
type claimedRedaction struct {
	by uint64
	q  question
}

// sameRowExceptRedaction is like sameExceptRedaction, for two rows as JSON text.
func (c *comparer) sameRowExceptRedaction(q question, expected, got []byte, from uint64) bool {
	var x, y pyjson.Document
	return x.Parse(expected) == nil && y.Parse(got) == nil && c.sameExceptRedaction(q, x.Root(), y.Root(), from)
}

// sameExceptRedaction reports whether two objects are equal, except that only one of them may
// show a redaction. The seq of the redacting event must be from or higher. It keeps the
// server's claim for checkClaims.
func (c *comparer) sameExceptRedaction(q question, expected, got pyjson.Value, from uint64) bool {
	byExpected, later := laterRedaction(expected, from)
	byGot, laterGot := laterRedaction(got, from)
	if !later && !laterGot || later && laterGot && byExpected != byGot {
		return false
	}
	if laterGot && (got.Member("links").Member("content").Kind() != pyjson.Absent || !later && expected.Member(redactedMember).Kind() != pyjson.Absent) {
		return false
	}
	if later && !laterGot && got.Member(redactedMember).Kind() != pyjson.Absent {
		return false
	}
	if !bytes.Equal(without(expected, redactedMember, "links", "checkpoint"), without(got, redactedMember, "links", "checkpoint")) ||
		!c.sameCheckpoint(expected.Member("checkpoint"), got.Member("checkpoint")) ||
		!bytes.Equal(without(expected.Member("links"), "content"), without(got.Member("links"), "content")) {
		return false
	}
	if seq := seqOf(canonical(got)); laterGot && seq != nil {
		c.noteRedaction(q, *seq, byGot)
	}
	return true
}

// laterRedaction returns the event that redacted a record, and whether its seq is at least
// from.
func laterRedaction(v pyjson.Value, from uint64) (by uint64, later bool) {
	by, err := strconv.ParseUint(string(v.Member(redactedMember).Raw()), 10, 64)
	return by, err == nil && by >= from
}

// noteRedaction keeps a redaction that the server claims, for checkClaims.
func (c *comparer) noteRedaction(q question, seq, by uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.redactions[seq] = claimedRedaction{by, q}
	if by >= c.largest {
		c.largest, c.largestIn = by+1, q
	}
}

// checkClaims compares two claims of answers with the log beyond the shown size: the size of
// the log, and the redacting event of each redacted record.
func (c *comparer) checkClaims() *monitor.Finding {
	if size := c.copy.WrittenSize(); c.largest > size {
		return findingOf(c.largestIn, "", "the answer claims a size that the log does not have", "at most "+decimal(size), decimal(c.largest))
	}
	for _, seq := range slices.Sorted(maps.Keys(c.redactions)) {
		claim := c.redactions[seq]
		if by, redacted := c.copy.RedactedBy(seq); !redacted || by != claim.by {
			f := findingOf(claim.q, redactedMember, "no such event redacts the record", "", decimal(claim.by))
			if redacted {
				f.Expected = decimal(by)
			}
			f.Seq = &seq
			return f
		}
	}
	return nil
}

// noteSize keeps a size of the log that the server claims, for checkClaims.
func (c *comparer) noteSize(q question, size uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if size > c.largest {
		c.largest, c.largestIn = size, q
	}
}
