// Package indexfetch fetches index snapshots from other servers that have the same log.
//
// No proof covers the rows of an index, so Fetcher has to trust the server that sends them. It checks the
// digest of the rows. It also checks that the server's tree has the same root as this server's tree at the
// size of the snapshot. It cannot check that the rows follow from the events. If several servers are given,
// all of them must have the same rows.
package indexfetch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"colophon/client"
	"colophon/client/wire"
	"colophon/ledger/index"
	"colophon/proofs"
)

// Server is another server with the same log.
type Server struct {
	URL    string // used in messages
	Client *client.Client
}

// Fetcher fetches index snapshots. Its methods are safe for concurrent use.
type Fetcher struct {
	// Servers lists the servers to fetch from. The first server sends the rows, and all other
	// servers must have the same rows.
	Servers []Server
	// Root returns the root of this server's own tree at the given size. It waits for a while if
	// the log does not have that many events yet.
	Root func(ctx context.Context, ledger string, size uint64) (proofs.Hash, error)
	// MinPartBytes is the minimum length, in bytes, of every part but the last. 0 means index.SnapshotPartBytes.
	MinPartBytes int
	// Now replaces time.Now in tests.
	Now func() time.Time
}

// minRate is the minimum average rate of a fetch, in bytes of rows per second. A fetch that is
// slower after its first minute is abandoned. Two busy cores fold about 8 MiB of rows per second.
const minRate = 1 << 20

// Errors that say why a snapshot was refused.
var (
	ErrDigestMismatch    = errors.New("the rows do not match the digest from the server")
	ErrRootMismatch      = errors.New("the server has a different log: the roots of the two trees differ")
	ErrLayoutMismatch    = errors.New("the server's index has a different layout")
	ErrServersDiffer     = errors.New("two servers have different rows for the same events, so one of the indexes is incorrect")
	ErrSlowServer        = errors.New("the server is too slow")
	ErrPartTooShort      = errors.New("the part is too short")
	ErrMalformedResponse = errors.New("the server's response is malformed")
)

// Fetch implements index.SnapshotFetchFunc.
func (f *Fetcher) Fetch(ctx context.Context, ledger string) iter.Seq2[*index.SnapshotPart, error] {
	return func(yield func(*index.SnapshotPart, error) bool) {
		s := session{Fetcher: f, ledger: ledger, began: f.now()}
		for more := true; more; {
			part, err := s.next(ctx)
			if err != nil {
				yield(nil, fmt.Errorf("fetching part %d of the index of ledger %q from %s: %w", s.parts+1, ledger, f.Servers[0].URL, err))
				return
			}
			s.parts++
			more = yield(part, nil) && part.Next != nil
		}
	}
}

func (f *Fetcher) now() time.Time {
	if f.Now == nil {
		return time.Now()
	}
	return f.Now()
}

// session is the state of a single fetch of a snapshot.
type session struct {
	*Fetcher
	ledger string
	began  time.Time
	size   uint64 // 0 before the first part
	root   string
	cursor string
	parts  int
	bytes  uint64
}

// next fetches and checks the next part, and compares it with the digests from the other servers.
func (s *session) next(ctx context.Context) (*index.SnapshotPart, error) {
	answers, err := s.ask(ctx)
	if err != nil {
		return nil, err
	}
	first := answers[0]
	if s.parts == 0 {
		if err := s.begin(ctx, first); err != nil {
			return nil, err
		}
	}
	digest := sha256.Sum256(first.Rows)
	next, err := hex.DecodeString(first.Next)
	if err != nil {
		return nil, fmt.Errorf(`%w: the member "next" is %q, but must be hexadecimal`, ErrMalformedResponse, first.Next)
	}
	s.bytes += uint64(len(first.Rows))
	took := s.now().Sub(s.began)
	switch {
	case first.AsOf != s.size || first.RootHash != s.root:
		return nil, fmt.Errorf("%w: the part has the size %d and the root %s, but the first part had the size %d and the root %s", ErrMalformedResponse, first.AsOf, first.RootHash, s.size, s.root)
	case hex.EncodeToString(digest[:]) != first.Digest:
		return nil, ErrDigestMismatch
	case first.Next != "" && len(first.Rows) < s.minPartBytes():
		return nil, fmt.Errorf("%w: the part has only %d bytes, but further parts follow", ErrPartTooShort, len(first.Rows))
	case took > time.Minute && s.bytes/uint64(took.Seconds()) < minRate:
		return nil, fmt.Errorf("%w: it sent %d bytes in %s", ErrSlowServer, s.bytes, took.Round(time.Second))
	}
	for i, other := range answers[1:] {
		if err := compare(first, other); err != nil {
			return nil, fmt.Errorf("comparing with the index of %[2]s: %[1]w", err, s.Servers[i+1].URL)
		}
	}
	if s.cursor = first.Next; s.cursor == "" {
		next = nil
	}
	return &index.SnapshotPart{Size: s.size, Rows: first.Rows, Next: next}, nil
}

// minPartBytes returns the minimum length, in bytes, of every part but the last.
func (s *session) minPartBytes() int {
	if s.MinPartBytes == 0 {
		return index.SnapshotPartBytes
	}
	return s.MinPartBytes
}

// begin checks the layout and the root of the first part, and sets the size and the root that all parts must
// have.
func (s *session) begin(ctx context.Context, first *wire.IndexPart) error {
	if own := strings.TrimSpace(index.Layout); first.Layout != own {
		return fmt.Errorf("%w: got %q, expected %q", ErrLayoutMismatch, first.Layout, own)
	}
	root, err := s.Root(ctx, s.ledger, first.AsOf)
	if err != nil {
		return err
	}
	if own := hex.EncodeToString(root[:]); own != first.RootHash {
		return fmt.Errorf("%w at size %d: %s locally, %s on the server", ErrRootMismatch, first.AsOf, own, first.RootHash)
	}
	s.size, s.root = first.AsOf, first.RootHash
	return nil
}

// compare returns an error if another server's part differs from that of the first server.
func compare(first, other *wire.IndexPart) error {
	switch {
	case first.Layout != other.Layout:
		return fmt.Errorf("%w: got %q, expected %q", ErrLayoutMismatch, other.Layout, first.Layout)
	case first.AsOf != other.AsOf:
		return fmt.Errorf("%w: the response has the size %d instead of %d", ErrMalformedResponse, other.AsOf, first.AsOf)
	case first.RootHash != other.RootHash:
		return fmt.Errorf("%w at size %d", ErrRootMismatch, first.AsOf)
	case first.Digest != other.Digest || first.Next != other.Next:
		return fmt.Errorf("%w: the part up to row %s differs at size %d; run colophon reindex on the server whose index is incorrect", ErrServersDiffer, first.Next, first.AsOf)
	}
	return nil
}

// ask requests the next part from the first server and the digest of that part from the others.
func (s *session) ask(ctx context.Context) ([]*wire.IndexPart, error) {
	if s.parts == 0 && len(s.Servers) > 1 {
		return s.agree(ctx)
	}
	return s.askAt(ctx, s.size)
}

// askAt is like ask, but for the given size. 0 means the current size.
func (s *session) askAt(ctx context.Context, size uint64) ([]*wire.IndexPart, error) {
	answers := make([]*wire.IndexPart, len(s.Servers))
	group, ctx := errgroup.WithContext(ctx)
	for i, server := range s.Servers {
		group.Go(func() (err error) {
			q := client.IndexPartQuery{AsOf: size, Cursor: s.cursor, DigestOnly: i > 0}
			if answers[i], err = server.Client.Ledger(s.ledger).IndexPart(ctx, q); err != nil && i > 0 {
				err = fmt.Errorf("requesting the digest from %s: %w", server.URL, err)
			}
			return err
		})
	}
	return answers, group.Wait()
}

// agree gives up after agreeTries attempts. Each time, it waits for agreePause to see whether the
// log grows.
const (
	agreeTries = 3
	agreePause = 250 * time.Millisecond
)

// agree is like ask, but requests the first part at a size that all servers can serve. If the log is
// growing, this is a size that the servers are expected to reach in about a second; otherwise, it is the
// current size.
func (s *session) agree(ctx context.Context) ([]*wire.IndexPart, error) {
	for try := 0; ; try++ {
		before, err := s.longest(ctx)
		if err != nil {
			return nil, err
		}
		select {
		case <-time.After(agreePause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		size, err := s.longest(ctx)
		if err != nil {
			return nil, err
		}
		if size > before {
			size += (size - before) << (2 + try)
		}
		answers, err := s.askAt(ctx, size)
		if err == nil {
			return answers, nil
		}
		if try == agreeTries-1 || ctx.Err() != nil {
			return nil, fmt.Errorf("the servers did not all return the index at the same tree size: %w", err)
		}
	}
}

// longest returns the size of the longest log among all servers.
func (s *session) longest(ctx context.Context) (size uint64, err error) {
	for _, server := range s.Servers {
		l, err := server.Client.Ledger(s.ledger).Describe(ctx)
		if err != nil {
			return 0, fmt.Errorf("requesting the size of the log from %s: %w", server.URL, err)
		}
		size = max(size, l.TreeSize)
	}
	return size, nil
}
