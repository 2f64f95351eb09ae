package replay

import (
	"bytes"
	"maps"
	"slices"
	"strconv"

	"colophon/ledger/record/pyjson"
	"colophon/proofs/monitor"
)

// redactedMember is the JSON member that names the event that redacted a record. It is the only
// member that is always current, even in an answer as of an older size (docs/spec: Index and
// as_of). If it is present, the links to the content are absent.
const redactedMember = "redacted_by"

// claimedRedaction is a redaction that the server claims in its answer to question q. The field by
// is the seq of the redacting event, which may not be in the copy of the log yet.
type claimedRedaction struct {
	by uint64
	q  question
}

// sameRowExceptRedaction is like sameExceptRedaction but accepts two rows as JSON text.
func (c *comparer) sameRowExceptRedaction(q question, expected, got []byte, from uint64) bool {
	var x, y pyjson.Document
	return x.Parse(expected) == nil && y.Parse(got) == nil && c.sameExceptRedaction(q, x.Root(), y.Root(), from)
}

// sameExceptRedaction reports whether expected and got are equal apart from a redaction. At least
// one of them must show the redaction, and the redacting event's seq must be at least from. If got
// shows it, sameExceptRedaction records the server's claim for checkClaims to verify.
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

// laterRedaction returns the seq of the event that redacted the record in v, and reports whether
// that seq is at least from.
func laterRedaction(v pyjson.Value, from uint64) (by uint64, later bool) {
	by, err := strconv.ParseUint(string(v.Member(redactedMember).Raw()), 10, 64)
	return by, err == nil && by >= from
}

// noteRedaction records the server's claim that the record at seq was redacted by the event whose
// seq is by. checkClaims verifies the claim later.
func (c *comparer) noteRedaction(q question, seq, by uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.redactions[seq] = claimedRedaction{by, q}
	if by >= c.largest {
		c.largest, c.largestIn = by+1, q
	}
}

// checkClaims verifies the claims in the server's answers that could not be compared with the
// reference: the largest size of the log, and the event that redacted each record. It returns a
// finding for the first false claim, or nil if there is none.
func (c *comparer) checkClaims() *monitor.Finding {
	if size := c.copy.AddedCount(); c.largest > size {
		return findingOf(c.largestIn, "", "the size in the response is larger than the size of the log", "at most "+decimal(size), decimal(c.largest))
	}
	for _, seq := range slices.Sorted(maps.Keys(c.redactions)) {
		claim := c.redactions[seq]
		if by, redacted := c.copy.RedactedBy(seq); !redacted || by != claim.by {
			f := findingOf(claim.q, redactedMember, "the redaction in the response does not match the log", "", decimal(claim.by))
			if redacted {
				f.Expected = decimal(by)
			}
			f.Seq = &seq
			return f
		}
	}
	return nil
}

// noteSize records the server's claim that the log has the given size. checkClaims verifies the
// claim later.
func (c *comparer) noteSize(q question, size uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if size > c.largest {
		c.largest, c.largestIn = size, q
	}
}
