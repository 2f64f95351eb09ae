package audit

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"colophon/ledger/event"
	"colophon/ledger/record"
	"colophon/ledger/record/members"
	"colophon/ledger/record/rules"
	"colophon/ledger/record/seqs"
	"colophon/proofs"
)

// maxGood and cachedContent limit the memory that a contentCheck uses.
const (
	maxGood       = 1 << 16  // maximum number of digests in contentCheck.sizes, and in contentCheck.needed
	cachedContent = 32 << 20 // maximum total size of the cached pieces of content, in bytes
)

// contentCheck checks the content that is stored for the records of events, and rebuilds the
// records from that content.
type contentCheck struct {
	*target
	stored     Source
	reread     *rereader
	redactions *redactionCheck
	rebuilder  Rebuilder
	report     *Report

	cache   *ContentCache
	sizes   map[proofs.Hash]uint64 // sizes of the pieces of content whose bytes are known to match their digest
	needed  map[proofs.Hash]bool   // content of redacted records that is rightly kept, because another record needs it
	digests []proofs.Hash          // scratch
}

func newContentCheck(t *target, stored Source, reread *rereader, report *Report) *contentCheck {
	return &contentCheck{
		target: t, stored: stored, reread: reread, report: report, cache: NewContentCache(cachedContent),
		sizes: make(map[proofs.Hash]uint64), needed: make(map[proofs.Hash]bool),
		redactions: &redactionCheck{target: t, stored: stored, reread: reread, lists: make(map[uint64]*seqs.List)},
	}
}

// check checks every piece of content that an event names (spec: Content). If the record is
// redacted, its content must have been erased. check also checks the redactions that the event
// makes, and rebuilds the record.
func (c *contentCheck) check(e *event.Body, body []byte) error {
	before := *c.report
	err := c.checkOnce(e, body)
	var damage *Damage
	if ahead, can := c.stored.(Refresher); can && errors.As(err, &damage) {
		ahead.Refresh()
		*c.report = before
		return c.checkOnce(e, body)
	}
	return err
}

func (c *contentCheck) checkOnce(e *event.Body, body []byte) error {
	by, redacted, err := c.redactions.redactedBy(e.Seq)
	if err == nil && redacted {
		err = c.redactions.checkPair(e.Seq, by)
	}
	if err != nil {
		return err
	}
	c.digests = c.digests[:0]
	for _, named := range e.Common.Contents {
		digest, err := proofs.ParseHash(string(named.Digest))
		if err != nil {
			return damaged(DamageKindEvent, e.Seq, "the event's content %.100q has an invalid digest: %v", named.Name, err)
		}
		good, wrong := &c.report.ContentCount, ""
		if redacted {
			good = &c.report.RedactedContentCount
			wrong, err = c.erasureProblem(digest)
		} else {
			wrong, err = c.storageProblem(e.Seq, digest, named.Size)
		}
		if err != nil {
			return err
		}
		if wrong != "" {
			return &Damage{Kind: DamageKindContent, Seq: e.Seq, Name: named.Name, Message: wrong}
		}
		*good++
		c.digests = append(c.digests, digest)
	}
	if e.Kind == record.KindContentRedacted {
		if err := c.redactions.checkList(e.Seq, e.Redaction.Seqs); err != nil {
			return err
		}
	}
	if redacted {
		return nil
	}
	if e.Kind == record.KindLedgerCreated {
		c.rebuilder.PayloadMemberSecret, err = ReadPayloadMemberSecret(e, func() ([]byte, error) { return c.stored.PayloadMemberSecret(c.ctx) })
		if err != nil {
			return err
		}
	}
	c.report.UnredactedContentCount += distinct(c.digests)
	return c.rebuilder.Check(e.Seq, body, func(_ string, digest proofs.Hash) ([]byte, error) { return c.read(digest) })
}

// ReadPayloadMemberSecret returns the payload-member secret that a ledger_created event
// commits to, or nil if the event does not commit to one. It calls read to get the secret. If the
// secret is absent or does not match the commitment, the error is a *Damage.
func ReadPayloadMemberSecret(e *event.Body, read func() ([]byte, error)) (*members.Secret, error) {
	commitment := e.LedgerCreation.MemberSecretHash
	if commitment == nil {
		return nil, nil
	}
	wrong := func(format string, args ...any) error {
		return &Damage{Kind: DamageKindContent, Seq: e.Seq, Name: "member_secret", Message: fmt.Sprintf(format, args...)}
	}
	text, err := read()
	if err != nil {
		return nil, readDamage(err, wrong("missing: %v", err))
	}
	secret, err := members.ParseSecret(text)
	if err != nil {
		return nil, wrong("altered: %v", err)
	}
	if hash := rules.AppendHex(nil, secret.Commitment()); !bytes.Equal(hash, commitment) {
		return nil, wrong("altered: the secret's hash is %s, but the event commits to %s", hash, commitment)
	}
	return secret, nil
}

// distinct sorts list in place and returns the number of distinct hashes in it.
func distinct(list []proofs.Hash) uint64 {
	slices.SortFunc(list, func(a, b proofs.Hash) int { return bytes.Compare(a[:], b[:]) })
	return uint64(len(slices.Compact(list)))
}

// storageProblem checks a piece of content that the record at seq needs. It returns a description of
// what is wrong with it, or "" if the piece is intact.
func (c *contentCheck) storageProblem(seq uint64, digest proofs.Hash, size uint64) (string, error) {
	held, good := c.sizes[digest]
	if !good {
		content, err := c.read(digest)
		if err != nil {
			return "missing: " + err.Error(), onlyUnavailable(err)
		}
		if held = uint64(len(content)); sha256.Sum256(content) != digest {
			return "altered: the content does not match the digest in the event", nil
		}
		if len(c.sizes) == maxGood {
			clear(c.sizes)
		}
		c.sizes[digest] = held
	}
	// Without its own reference, this record could lose its content when others are redacted.
	switch kept, err := c.stored.HasReference(c.ctx, digest, seq); {
	case err != nil:
		return "checking whether the content is kept for this record: " + err.Error(), onlyUnavailable(err)
	case !kept:
		return "the content is stored, but the record has no stored reference to it", nil
	case held != size:
		return fmt.Sprintf("the content has %d bytes, but the event records a size of %d", held, size), nil
	}
	return "", nil
}

// read returns a piece of content from the cache or the source.
func (c *contentCheck) read(digest proofs.Hash) ([]byte, error) {
	if content, cached := c.cache.Get(digest); cached {
		return content, nil
	}
	content, err := c.stored.Content(c.ctx, digest)
	if err == nil {
		c.cache.Put(digest, content)
	}
	return content, err
}

// erasureProblem returns the reason why a piece of content of a redacted record should have been erased.
// It returns "" if the piece has been erased or is rightly kept.
func (c *contentCheck) erasureProblem(digest proofs.Hash) (string, error) {
	if c.needed[digest] {
		return "", nil
	}
	_, err := c.stored.Content(c.ctx, digest)
	if errors.Is(err, ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "checking whether the content is erased: " + err.Error(), onlyUnavailable(err)
	}
	first, err := c.stored.FirstReference(c.ctx, digest)
	if errors.Is(err, ErrNotFound) {
		return "not erased: no record needs the content, but it is still stored", nil
	}
	if err != nil {
		return "finding the records that need the content: " + err.Error(), onlyUnavailable(err)
	}
	wrong, err := c.reasonNotNeeded(first, digest)
	if wrong != "" || err != nil {
		return wrong, err
	}
	if len(c.needed) == maxGood {
		clear(c.needed)
	}
	c.needed[digest] = true
	return "", nil
}

// reasonNotNeeded returns the reason why the record at seq does not need a piece of content that is kept
// for it. It returns "" if the record needs the piece.
func (c *contentCheck) reasonNotNeeded(seq uint64, digest proofs.Hash) (string, error) {
	by, redacted, err := c.redactions.redactedBy(seq)
	if err != nil {
		return "", err
	}
	if redacted {
		return fmt.Sprintf("not erased: the content is kept for record %d, which event %d has redacted", seq, by), nil
	}
	e, known, err := c.reread.stored(seq)
	if err != nil || !known && seq < c.head.Size {
		return "", err
	}
	if known {
		for named := range e.Contents() {
			if named.Digest == digest {
				return "", nil
			}
		}
	}
	return fmt.Sprintf("not erased: the content is kept for record %d, which does not name this content", seq), nil
}
