// Package export builds audit packs from the records of a server.
package export

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"colophon/client"
	"colophon/client/wire"
	"colophon/internal/cli"
	"colophon/internal/remote"
	"colophon/internal/size"
	"colophon/proofs"
	"colophon/proofs/pack"
)

// PackOptions specifies what a pack contains.
type PackOptions struct {
	Ledger         string
	WithoutContent bool       // include only events and proofs
	MaxRecords     int        // if more records are selected, the export fails
	MaxContentSize size.Bytes // maximum total size of the content; the client must accept response bodies of this size
}

// BuildPack fetches records and their proofs, all at the same tree size, and builds a pack from
// them. If filter is nil, it fetches the records with the given seqs. Otherwise, it fetches all
// records that match filter, which maps query parameters of GET /records to their values. BuildPack
// also adds the events that erased content of these records. It verifies the pack with the keys
// that the server names and returns an error if the pack does not verify. Its errors carry an exit
// code and are meant to end the command.
func BuildPack(ctx context.Context, c *cli.Console, server *remote.Connection, o PackOptions, seqs []uint64, filter map[string]string) (*pack.Pack, pack.Report, error) {
	x := &exporter{PackOptions: o, ctx: ctx, server: server, ledger: server.Ledger(o.Ledger),
		redacted: make(map[uint64]*uint64), contents: make(map[string][]byte), state: pack.ContentStatusIncluded}
	if o.WithoutContent {
		x.state = pack.ContentStatusOmitted
	}
	seqs, err := x.choose(seqs, filter)
	if err != nil {
		return nil, pack.Report{}, err
	}
	x.progress = cli.NewProgress(c, int64(2*len(seqs)), "exporting")
	defer x.progress.Finish()
	return x.pack(seqs)
}

// exporter builds one audit pack.
type exporter struct {
	PackOptions
	ctx      context.Context
	server   *remote.Connection
	ledger   *client.Ledger
	redacted map[uint64]*uint64 // seq of the event that erased a record's content (nil if none did), keyed by record seq
	contents map[string][]byte  // keyed by digest
	bytes    uint64             // total length of contents
	state    string             // pack.ContentStatusIncluded, or why the pack has no content
	progress *cli.Progress
}

// choose returns the seqs of the selected records in ascending order.
func (x *exporter) choose(seqs []uint64, filter map[string]string) (_ []uint64, err error) {
	if filter != nil {
		if seqs, err = x.list(filter); err != nil {
			return nil, err
		}
	}
	slices.Sort(seqs)
	seqs = slices.Compact(seqs)
	switch {
	case len(seqs) == 0:
		return nil, cli.ExitErrorf(cli.ExitFailed, "no record matches the filters; check them")
	case len(seqs) > x.MaxRecords:
		return nil, x.tooMany()
	}
	return seqs, nil
}

func (x *exporter) tooMany() error {
	return cli.ExitErrorf(cli.ExitFailed, "more than %d records are selected: select fewer, or raise --max-records", x.MaxRecords)
}

// list returns the seqs of the records that match filter. It returns an error if there are more
// than MaxRecords of them.
func (x *exporter) list(filter map[string]string) (seqs []uint64, err error) {
	for row, err := range x.ledger.Records.List(&client.RecordFilter{Where: filter}).All(x.ctx) {
		if err != nil {
			return nil, x.server.ExplainFatal(err)
		}
		if seqs = append(seqs, row.Seq); len(seqs) > x.MaxRecords {
			return nil, x.tooMany()
		}
	}
	return seqs, nil
}

// pack builds and verifies a pack of the given records.
func (x *exporter) pack(seqs []uint64) (*pack.Pack, pack.Report, error) {
	all, needed := slices.Clone(seqs), make(map[string][]byte)
	for _, seq := range seqs {
		digests, err := x.record(seq)
		if err != nil {
			return nil, pack.Report{}, err
		}
		for _, digest := range digests {
			needed[digest] = x.contents[digest]
		}
		if by := x.redacted[seq]; by != nil {
			all = append(all, *by)
		}
		x.progress.Add(1)
	}
	if x.state != pack.ContentStatusIncluded {
		clear(needed)
	}
	slices.Sort(all)
	p, err := x.prove(slices.Compact(all))
	if err != nil {
		return nil, pack.Report{}, err
	}
	p.ContentStatus, p.Contents = x.state, needed
	own, err := cli.ParseKeys(strings.Join(p.VerifierKeys, "\n"), "the server's keys")
	if err != nil {
		return nil, pack.Report{}, err
	}
	report, err := p.Verify(own.Keys...)
	if err != nil {
		return nil, pack.Report{}, fmt.Errorf("verifying the pack: %w", err)
	}
	return p, report, nil
}

// record fetches the content of a record. It returns the digests of the content, or none if the
// content has been erased.
func (x *exporter) record(seq uint64) (digests []string, err error) {
	row, err := x.ledger.Records.Get(x.ctx, seq, nil)
	if err != nil {
		return nil, x.server.ExplainFatal(err)
	}
	x.redacted[seq] = row.RedactedBy
	if row.RedactedBy != nil {
		return nil, nil
	}
	var event struct{ Record wire.RecordEventMembers }
	if err := json.Unmarshal(row.Event, &event); err != nil {
		return nil, fmt.Errorf("decoding event %d: %w", seq, err)
	}
	for name, named := range event.Record.Content {
		if x.state != pack.ContentStatusIncluded {
			break
		}
		err := x.content(seq, name, named)
		switch {
		case errors.Is(err, client.ErrForbidden):
			x.state = pack.ContentStatusForbidden
		case errors.Is(err, client.ErrGone):
			return nil, cli.ExitErrorf(cli.ExitFailed, "the content of event %d was erased during the export; run export again", seq)
		case err != nil:
			return nil, fmt.Errorf("fetching content %q of event %d: %w", name, seq, err)
		}
		digests = append(digests, named.SHA256)
	}
	return digests, nil
}

// content fetches a piece of content, unless the exporter already has it, and verifies its
// digest.
func (x *exporter) content(seq uint64, name string, named wire.ContentDigest) error {
	if _, found := x.contents[named.SHA256]; found {
		return nil
	}
	if x.bytes += named.Size; x.bytes > uint64(x.MaxContentSize) || named.Size > uint64(x.MaxContentSize) {
		most, err := x.MaxContentSize.MarshalText()
		if err != nil {
			return err
		}
		return cli.ExitErrorf(cli.ExitFailed, "the content is larger than %s: select fewer records, leave out content with --without-content, or raise --max-content", most)
	}
	content, err := x.ledger.Records.Content(x.ctx, seq, name)
	if err != nil {
		return x.server.ExplainFatal(err)
	}
	if sum := sha256.Sum256(content); uint64(len(content)) != named.Size || hex.EncodeToString(sum[:]) != named.SHA256 {
		return errors.New("the content returned by the server does not match the size and digest in the event")
	}
	x.contents[named.SHA256] = content
	return nil
}

// prove fetches the receipts of the given events at the current tree size and builds the pack.
func (x *exporter) prove(seqs []uint64) (*pack.Pack, error) {
	history, err := x.ledger.Log.Keys(x.ctx)
	if err != nil {
		return nil, x.server.ExplainFatal(err)
	}
	now, err := x.ledger.Describe(x.ctx)
	if err != nil {
		return nil, x.server.ExplainFatal(err)
	}
	var keys []string // only keys that sign at this tree size, because readers do not trust a replaced key
	for _, key := range history.SigningKeysAt(now.TreeSize) {
		keys = append(keys, key.String())
	}
	var p *pack.Pack
	for _, seq := range seqs {
		r, err := x.receipt(seq, now.TreeSize)
		if err != nil {
			return nil, err
		}
		if p == nil {
			p = pack.New(r.Ledger, time.Now().UTC().Format(time.RFC3339), keys, r.Proof.Checkpoint)
		}
		p.Add(r, x.redacted[seq])
		x.progress.Add(1)
	}
	return p, nil
}

// receipt fetches the receipt of an event at the given tree size and checks that it belongs to that
// event.
func (x *exporter) receipt(seq, size uint64) (*proofs.Receipt, error) {
	path := fmt.Sprintf("%s/records/%d/receipt?tree_size=%d", x.ledger.Path(), seq, size)
	answer, err := x.server.Do(x.ctx, client.Request{Path: path})
	if err != nil {
		return nil, x.server.ExplainFatal(err)
	}
	r, err := proofs.ParseReceipt(answer.Body)
	if err == nil && r.Proof == nil {
		err = proofs.ErrNoProof
	}
	if err == nil && (r.Seq != seq || r.Ledger != x.ledger.Name()) {
		err = fmt.Errorf("the server returned the receipt of event %d of ledger %.100q instead", r.Seq, r.Ledger)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the receipt of event %d: %w", seq, err)
	}
	return r, nil
}
