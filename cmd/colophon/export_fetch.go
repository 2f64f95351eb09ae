package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"colophon/internal/cli"
	"colophon/proofs"
	"colophon/proofs/pack"
)

// exporter fetches what goes into an audit pack.
type exporter struct {
	*exportCommand
	ctx      context.Context
	client   *client
	path     string             // of the ledger
	redacted map[uint64]*uint64 // by which event, of those that are
	contents map[string][]byte  // by digest
	bytes    int                // of them
	state    string             // pack.ContentIncluded, or why there is none
	progress *cli.Progress
}

// pack makes the pack of some records, and verifies it with the keys that the server
// names: what does not verify, nobody should be given.
func (x *exporter) pack(seqs []uint64) (*pack.Pack, pack.Report, error) {
	x.progress = cli.NewProgress(x.Console, int64(2*len(seqs)), "exporting")
	defer x.progress.Finish()
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
	if x.state != pack.ContentIncluded {
		clear(needed)
	}
	slices.Sort(all)
	p, err := x.prove(slices.Compact(all))
	if err != nil {
		return nil, pack.Report{}, err
	}
	p.Content, p.Contents = x.state, needed
	own, err := cli.ParseKeys(strings.Join(p.Keys, "\n"), "the server's keys")
	if err != nil {
		return nil, pack.Report{}, err
	}
	report, err := p.Verify(own.Keys...)
	if err != nil {
		return nil, pack.Report{}, fmt.Errorf("what the server answers does not verify: %w", err)
	}
	return p, report, nil
}

// exportedRow is what the server says of a record.
type exportedRow struct {
	RedactedBy *uint64 `json:"redacted_by"`
	Event      struct {
		Record struct {
			Content map[string]struct {
				SHA256 string `json:"sha256"`
				Size   int    `json:"size"`
			} `json:"content"`
		} `json:"record"`
	} `json:"event"`
}

// record fetches the content of a record, and gives the digests of it; none where it is
// erased.
func (x *exporter) record(seq uint64) (digests []string, err error) {
	path := x.path + "/records/" + cli.Decimal(seq)
	var row exportedRow
	if err := x.get(path, &row); err != nil {
		return nil, err
	}
	x.redacted[seq] = row.RedactedBy
	if row.RedactedBy != nil {
		return nil, nil
	}
	for name, named := range row.Event.Record.Content {
		if x.state != pack.ContentIncluded {
			break
		}
		err := x.content(path+"/content/"+name, named.SHA256, named.Size)
		switch refused := (*problem)(nil); {
		case errors.As(err, &refused) && refused.Status == http.StatusForbidden:
			x.state = pack.ContentNoRight
		case errors.As(err, &refused) && refused.Status == http.StatusGone:
			return nil, cli.Exitf(cli.ExitFailed, "the content of event %d was erased a moment ago; export again", seq)
		case err != nil:
			return nil, fmt.Errorf("content %q of event %d: %w", name, seq, err)
		}
		digests = append(digests, named.SHA256)
	}
	return digests, nil
}

// content fetches a piece of content, once.
func (x *exporter) content(path, digest string, size int) error {
	if _, found := x.contents[digest]; found {
		return nil
	}
	if x.bytes += size; size > maxAnswer || x.bytes > int(x.maxContent) {
		most, err := min(x.maxContent, maxAnswer).MarshalText()
		if err != nil {
			return err
		}
		return cli.Exitf(cli.ExitFailed, "the content is larger than %s: choose fewer records, leave it out with --without-content, or raise --max-content", most)
	}
	content, err := x.client.call(x.ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != digest {
		return errors.New("what the server answers is not what the event names")
	}
	x.contents[digest] = content
	return nil
}

// prove fetches the receipts of events, all at the tree size of now, and puts the pack
// together.
func (x *exporter) prove(seqs []uint64) (*pack.Pack, error) {
	answer, err := x.client.call(x.ctx, http.MethodGet, x.path+"/log/key", nil)
	if err != nil {
		return nil, err
	}
	history, err := proofs.ParseLogKey(answer)
	if err != nil {
		return nil, fmt.Errorf("the server's keys do not hold: %w", err)
	}
	var now ledgerInfo
	if err := x.get(x.path, &now); err != nil {
		return nil, err
	}
	var keys []string // that sign at this size: one that was replaced says nothing to a reader
	for _, key := range history.InForce(now.TreeSize) {
		keys = append(keys, key.String())
	}
	var p *pack.Pack
	for _, seq := range seqs {
		answer, err := x.client.call(x.ctx, http.MethodGet, fmt.Sprintf("%s/records/%d/receipt?tree_size=%d", x.path, seq, now.TreeSize), nil)
		if err != nil {
			return nil, err
		}
		r, err := proofs.ParseReceipt(answer)
		if err == nil && r.Proof == nil {
			err = proofs.ErrNoProof
		}
		if err != nil {
			return nil, fmt.Errorf("reading the receipt of event %d: %w", seq, err)
		}
		if p == nil {
			p = pack.New(r.Ledger, time.Now().UTC().Format(time.RFC3339), keys, r.Proof.Checkpoint)
		}
		p.Add(r, x.redacted[seq])
		x.progress.Add(1)
	}
	return p, nil
}

// get asks for JSON.
func (x *exporter) get(path string, to any) error {
	answer, err := x.client.call(x.ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(answer, to); err != nil {
		return fmt.Errorf("reading the server's answer: %w", err)
	}
	return nil
}
