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

// Limits of a contentCheck.
const (
	maxGood       = 1 << 16  // digests
	cachedContent = 32 << 20 // maximum total size of cached pieces, in bytes
)

// contentCheck checks the content that is stored for the records of events, and rebuilds the
// records from it.
type contentCheck struct {
	*target
	stored     Source
	reread     *rereader
	redactions *redactionCheck
	rebuilder  Rebuilder
	report     *Report

	cache   *ContentCache
	sizes   map[proofs.Hash]uint64 // sizes of pieces whose bytes have the right digest
	needed  map[proofs.Hash]bool   // content of redacted records that is kept because another record needs it
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
// redacted, the content must be erased. check also checks the redactions that the event makes,
// and rebuilds the record.
func (c *contentCheck) check(e *event.Body, body []byte) error {
	by, redacted, err := c.redactions.by(e.Seq)
	if err == nil && redacted {
		err = c.redactions.pair(e.Seq, by)
	}
	if err != nil {
		return err
	}
	c.digests = c.digests[:0]
	for _, named := range e.Common.Contents {
		digest, err := proofs.ParseHash(string(named.Digest))
		if err != nil {
			return damaged(KindEvent, e.Seq, "its content %.100q: %v", named.Name, err)
		}
		good, wrong := &c.report.Contents, ""
		if redacted {
			good = &c.report.Redacted
			wrong, err = c.notErased(digest)
		} else {
			wrong, err = c.notStored(e.Seq, digest, named.Size)
		}
		if err != nil {
			return err
		}
		if wrong != "" {
			return &Damage{Kind: KindContent, Seq: e.Seq, Name: named.Name, Message: wrong}
		}
		*good++
		c.digests = append(c.digests, digest)
	}
	if e.Kind == record.ContentRedacted {
		if err := c.redactions.list(e.Seq, e.Redaction.Seqs); err != nil {
			return err
		}
	}
	if redacted {
		return nil
	}
	if e.Kind == record.LedgerCreated {
		c.rebuilder.Members, err = MemberSecret(e, func() ([]byte, error) { return c.stored.MemberSecret(c.ctx) })
		if err != nil {
			return err
		}
	}
	c.report.Needs += distinct(c.digests)
	return c.rebuilder.Check(e.Seq, body, func(_ string, digest proofs.Hash) ([]byte, error) { return c.read(digest) })
}

// MemberSecret returns the secret of payload members to which a ledger_created event commits,
// or nil if it commits to none. It calls read for the secret. The error is a *Damage if the
// secret is absent or does not match the commitment.
func MemberSecret(e *event.Body, read func() ([]byte, error)) (*members.Secret, error) {
	commitment := e.Created.MemberSecretHash
	if commitment == nil {
		return nil, nil
	}
	wrong := func(format string, args ...any) error {
		return &Damage{Kind: KindContent, Seq: e.Seq, Name: "member_secret", Message: fmt.Sprintf(format, args...)}
	}
	text, err := read()
	if err != nil {
		return nil, readDamage(err, wrong("missing: %v", err))
	}
	secret, err := members.ReadSecret(text)
	if err != nil {
		return nil, wrong("altered: %v", err)
	}
	if hash := rules.AppendHex(nil, secret.Commitment()); !bytes.Equal(hash, commitment) {
		return nil, wrong("altered: its hash is %s, but the event commits to %s", hash, commitment)
	}
	return secret, nil
}

// distinct sorts list in place and returns the number of distinct hashes in it.
func distinct(list []proofs.Hash) uint64 {
	slices.SortFunc(list, func(a, b proofs.Hash) int { return bytes.Compare(a[:], b[:]) })
	return uint64(len(slices.Compact(list)))
}

// notStored describes how a piece of content that a record needs is damaged. It returns "" if the
// piece is intact.
func (c *contentCheck) notStored(seq uint64, digest proofs.Hash, size uint64) (string, error) {
	held, good := c.sizes[digest]
	if !good {
		content, err := c.read(digest)
		if err != nil {
			return "missing: " + err.Error(), onlyUnavailable(err)
		}
		if held = uint64(len(content)); sha256.Sum256(content) != digest {
			return "altered: its bytes do not have the digest that the event names", nil
		}
		if len(c.sizes) == maxGood {
			clear(c.sizes)
		}
		c.sizes[digest] = held
	}
	// Content that is not kept for this record would be erased when the other records are
	// redacted.
	switch kept, err := c.stored.HasReference(c.ctx, digest, seq); {
	case err != nil:
		return "cannot read whether it is kept for this record: " + err.Error(), onlyUnavailable(err)
	case !kept:
		return "it is stored, but not kept for this record", nil
	case held != size:
		return fmt.Sprintf("it has %d bytes, but the event gives the size %d", held, size), nil
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

// notErased returns the reason why a redacted record's piece of content should have been erased. It
// returns "" if the piece is erased or rightly kept.
func (c *contentCheck) notErased(digest proofs.Hash) (string, error) {
	if c.needed[digest] {
		return "", nil
	}
	_, err := c.stored.Content(c.ctx, digest)
	if errors.Is(err, ErrAbsent) {
		return "", nil
	}
	if err != nil {
		return "cannot read whether it is erased: " + err.Error(), onlyUnavailable(err)
	}
	first, err := c.stored.FirstReference(c.ctx, digest)
	if errors.Is(err, ErrAbsent) {
		return "not erased: no record needs it, but its bytes are stored", nil
	}
	if err != nil {
		return "cannot read which records need it: " + err.Error(), onlyUnavailable(err)
	}
	wrong, err := c.notNeeded(first, digest)
	if wrong != "" || err != nil {
		return wrong, err
	}
	if len(c.needed) == maxGood {
		clear(c.needed)
	}
	c.needed[digest] = true
	return "", nil
}

// notNeeded returns the reason why the record at seq does not need a piece of content that is kept
// for it. It returns "" if the record needs the piece.
func (c *contentCheck) notNeeded(seq uint64, digest proofs.Hash) (string, error) {
	by, redacted, err := c.redactions.by(seq)
	if err != nil {
		return "", err
	}
	if redacted {
		return fmt.Sprintf("not erased: it is kept for record %d, which event %d has redacted", seq, by), nil
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
	return fmt.Sprintf("not erased: it is kept for record %d, which does not name it", seq), nil
}
