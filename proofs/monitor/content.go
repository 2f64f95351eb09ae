package monitor

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"sync"

	"golang.org/x/sync/semaphore"

	"colophon/client/wire"
	"colophon/ledger/event"
	"colophon/ledger/record"
	"colophon/ledger/record/pyjson"
	"colophon/proofs"
	"colophon/proofs/audit"
	"colophon/proofs/monitor/fetch"
)

// contentChecker fetches the content of records during the walk, compares it with the events,
// and rebuilds the records from it.
type contentChecker struct {
	ctx     context.Context
	client  *fetch.Client
	past    audit.History
	cancel  context.CancelFunc
	jobs    chan contentJob // nil after the last job was submitted
	done    chan contentResult
	workers sync.WaitGroup
	pieces  *audit.ContentCache
	memory  *semaphore.Weighted // limits the bytes of content in memory

	// The fields below are used only by the goroutine of the walk.
	running int           // number of jobs whose results have not been received yet
	damage  *audit.Damage // damage with the lowest seq found so far
	last    uint64        // highest seq of a redacting event that the server named
	good    uint64        // number of valid pieces of content
	rebuilt []*audit.Rebuilder
	goneBy  map[uint64]uint64 // the redacting event that the server named for each record, keyed by the record's seq
}

// contentJob is a request to check the content of one record.
type contentJob struct {
	seq  uint64
	body []byte
}

type contentResult struct {
	seq     uint64
	fetched int // number of pieces that were fetched from the server
	pieces  uint64
	goneBy  *uint64 // seq of the redacting event that the server named; nil if it reported none
	err     error   // an *audit.Damage, or the reason why the check could not finish
}

func newContentChecker(ctx context.Context, client *fetch.Client, past audit.History, parallel int) *contentChecker {
	ctx, cancel := context.WithCancel(ctx)
	jobs := make(chan contentJob)
	c := &contentChecker{ctx: ctx, client: client, past: past, cancel: cancel, jobs: jobs, done: make(chan contentResult, parallel), pieces: audit.NewContentCache(cachedContent), goneBy: make(map[uint64]uint64), memory: semaphore.NewWeighted(maxContent)}
	for range parallel {
		rebuilder := new(audit.Rebuilder)
		c.rebuilt = append(c.rebuilt, rebuilder)
		c.workers.Go(func() {
			for job := range jobs {
				c.done <- c.check(ctx, rebuilder, job)
			}
		})
	}
	return c
}

// end tells the workers that there are no more jobs.
func (c *contentChecker) end() {
	if c.jobs != nil {
		close(c.jobs)
		c.jobs = nil
	}
}

// stop cancels all jobs and waits until the workers have stopped.
func (c *contentChecker) stop() {
	c.cancel()
	c.end()
	for c.running > 0 {
		<-c.done
		c.running--
	}
	c.workers.Wait()
}

// add submits the record of an event to the workers, if the event has one. Records without content
// are included, because nothing else checks their digests.
func (c *contentChecker) add(e audit.WalkedEntry) error {
	if e.Body.Kind == record.KindLedgerCreated {
		return c.readMemberSecret(e.Body)
	}
	if !e.Body.Kind.IsRecord() {
		return nil
	}
	return c.submit(contentJob{e.Seq, bytes.Clone(e.Entry[proofs.HashSize:])})
}

// readMemberSecret fetches the secret that keys the digests of payload members. It is called before
// the first job is submitted.
func (c *contentChecker) readMemberSecret(created *event.Body) error {
	var refused error // set if the server refuses to return the secret, which is not damage
	secret, err := audit.ReadPayloadMemberSecret(created, func() ([]byte, error) {
		answer, err := c.client.Get(c.ctx, "/member-secret", maxMemberSecret)
		switch {
		case err != nil:
			return nil, err
		case answer.Status == http.StatusUnauthorized, answer.Status == http.StatusForbidden:
			refused = &UncheckableError{Subject: "the digests of payload members", Reason: answer.Problem}
			return nil, refused
		case answer.Status != http.StatusOK:
			return nil, errors.New(answer.Problem)
		}
		var secret wire.PayloadMemberSecret
		if err := json.Unmarshal(answer.Body, &secret); err != nil {
			return nil, fmt.Errorf("the server's response is malformed: %w", err)
		}
		return hex.DecodeString(secret.MemberSecret)
	})
	if refused != nil {
		return refused
	}
	for _, r := range c.rebuilt {
		r.PayloadMemberSecret = secret
	}
	return err
}

// submit passes a job to a worker. While all workers are busy, it processes results. An error
// ends the walk.
func (c *contentChecker) submit(job contentJob) error {
	for {
		select {
		case c.jobs <- job:
			c.running++
			return nil
		case result := <-c.done:
			if err := c.take(result); err != nil {
				return err
			}
		}
	}
}

// take processes the result of a job. It keeps damage for finish to return, and returns any other
// error.
func (c *contentChecker) take(r contentResult) error {
	c.running--
	c.good += r.pieces
	var damage *audit.Damage
	switch {
	case errors.As(r.err, &damage):
		if c.damage == nil || damage.Seq < c.damage.Seq {
			c.damage = damage
		}
		return nil
	case r.err != nil:
		return r.err
	case r.goneBy == nil && r.fetched == 0:
		return nil
	case r.goneBy == nil:
		return c.past.OrFlags(r.seq, audit.FlagContentServed)
	}
	c.last = max(c.last, *r.goneBy)
	c.goneBy[r.seq] = *r.goneBy
	return c.past.OrFlags(r.seq, audit.FlagContentGone)
}

// finish waits for all results. If there is damage, it returns the damage with the lowest seq.
func (c *contentChecker) finish(report *Report) error {
	c.end()
	for c.running > 0 {
		if err := c.take(<-c.done); err != nil {
			return err
		}
	}
	report.ContentCount = c.good
	unknown := uint64(0)
	for _, d := range c.rebuilt {
		report.RebuiltRecords += d.RebuiltRecords
		report.ConfirmedRecords += d.ConfirmedRecords
		unknown += d.UnconfirmableRecords
	}
	if unknown > 0 {
		report.UnperformedChecks = append(report.UnperformedChecks, fmt.Sprintf("the cache key and digest of %s, because these hashes cover texts that are too long for an event", counted(unknown, "record")))
	}
	if c.damage != nil {
		return c.damage
	}
	return nil
}

// check checks the content of one record. It does not fetch pieces that are cached. If all are
// cached, it still fetches the last one, because the response shows whether the record is redacted.
func (c *contentChecker) check(ctx context.Context, rebuilder *audit.Rebuilder, job contentJob) contentResult {
	result := contentResult{seq: job.seq}
	var document pyjson.Document
	if result.err = document.Parse(job.body); result.err != nil {
		return result
	}
	named, size, err := namedPieces(job.seq, document.Root())
	if err == nil {
		size = min(size, maxContent) // acquiring more than maxContent bytes can never succeed
		err = c.memory.Acquire(ctx, size)
	}
	if err != nil {
		result.err = err
		return result
	}
	defer c.memory.Release(size)
	pieces := make(map[string][]byte)
	for i, n := range named {
		piece, kept := c.pieces.Get(n.digest)
		if isLast := i == len(named)-1; !kept || isLast && result.fetched == 0 {
			result.fetched++
			piece, result.goneBy, result.err = c.piece(ctx, job.seq, n)
		}
		if result.err != nil || result.goneBy != nil {
			return result
		}
		if int64(len(piece)) != n.size {
			result.err = contentDamage(job.seq, n.name, "the content has %d bytes, but the event records a size of %d", len(piece), n.size)
			return result
		}
		pieces[n.name] = piece
	}
	result.pieces = uint64(len(pieces))
	result.err = rebuilder.Check(job.seq, job.body, func(name string, _ proofs.Hash) ([]byte, error) { return pieces[name], nil })
	return result
}

// contentPiece describes a piece of content that an event lists. Its size is in bytes.
type contentPiece struct {
	name   string
	digest proofs.Hash
	size   int64
}

// Limits on content, in bytes.
const (
	maxContent    = 64 << 20 // maximum size of one piece
	cachedContent = 64 << 20 // maximum total size of the cached pieces

	maxMemberSecret = 1 << 10 // maximum size of the response that contains the payload-member secret
)

// maxRecordContent is the maximum total size, in bytes, of one record's content. Larger content
// cannot be audited.
const maxRecordContent = 4 * maxContent

// namedPieces returns the pieces of content that an event lists, and their total size in bytes. The
// error is an *UncheckableError if the total size exceeds maxRecordContent.
func namedPieces(seq uint64, event pyjson.Value) (named []contentPiece, size int64, err error) {
	for name, value := range event.Member("record").Member("content").Members() {
		digest, err := proofs.ParseHash(string(value.Member("sha256").Text()))
		if err != nil {
			return nil, 0, err // cannot happen, because the walk has already checked the event
		}
		given, err := strconv.ParseUint(string(value.Member("size").Raw()), 10, 64)
		if err != nil || given > maxContent {
			given = maxContent + 1 // caps the size of each piece, so that the sum cannot overflow
		}
		named = append(named, contentPiece{string(name.Text()), digest, int64(given)})
		if size += int64(given); size > maxRecordContent {
			return nil, 0, &UncheckableError{Subject: fmt.Sprintf("the content of event %d", seq), Reason: fmt.Sprintf("according to the event, the content has more than %d bytes", maxRecordContent)}
		}
	}
	return named, size, nil
}

// piece fetches a piece of content. It reads at most the number of bytes stated in the event. If
// the server responds that the content was redacted, goneBy is the seq of the redacting event.
// Otherwise, goneBy is nil.
func (c *contentChecker) piece(ctx context.Context, seq uint64, n contentPiece) (piece []byte, goneBy *uint64, err error) {
	answer, err := c.client.Get(ctx, contentPath(seq, n.name), min(n.size, maxContent))
	if errors.Is(err, fetch.ErrTooLong) {
		return nil, nil, contentDamage(seq, n.name, "altered: %v", err)
	}
	if err != nil {
		return nil, nil, err
	}
	switch answer.Status {
	case http.StatusOK:
	case http.StatusGone:
		if goneBy = answer.RedactedBy; goneBy == nil {
			return nil, nil, contentDamage(seq, n.name, "missing: %s", answer.Problem)
		}
		return nil, goneBy, nil
	case http.StatusUnauthorized, http.StatusForbidden:
		return nil, nil, &UncheckableError{Subject: "the content", Reason: answer.Problem}
	default:
		return nil, nil, contentDamage(seq, n.name, "missing: %s", answer.Problem)
	}
	if sha256.Sum256(answer.Body) != n.digest {
		return nil, nil, contentDamage(seq, n.name, "altered: the content does not match the digest in the event")
	}
	c.pieces.Put(n.digest, answer.Body)
	return answer.Body, nil, nil
}

// contentDamage returns the *Damage for a piece of content.
func contentDamage(seq uint64, name, format string, args ...any) error {
	return &audit.Damage{Kind: audit.DamageKindContent, Seq: seq, Name: name, Message: fmt.Sprintf(format, args...)}
}

func contentPath(seq uint64, name string) string {
	return fmt.Sprintf("/records/%d/content/%s", seq, url.PathEscape(name))
}
