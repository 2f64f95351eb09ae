package contestant

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/transparency-dev/formats/log"
	"github.com/transparency-dev/tessera"
	"github.com/transparency-dev/tessera/client"

	"colophon/proofs"
)

// FillTessera appends small entries to a Tessera log until it has config.Leaves entries.
func FillTessera(ctx context.Context, config Config) error {
	t, err := openTessera(ctx, config)
	if err != nil {
		return err
	}
	size, err := t.reader.IntegratedSize(ctx)
	if err != nil {
		return errors.Join(fmt.Errorf("reading the size: %w", err), t.close(ctx))
	}
	err = fill(ctx, size, config.Leaves, func(ctx context.Context, i uint64) error {
		_, err := t.appender.Add(ctx, tessera.NewEntry(strconv.AppendUint([]byte("entry "), i, 10)))()
		return err
	})
	return errors.Join(err, t.close(ctx))
}

// MeasureTesseraProofs measures the proof builder of Tessera's client on the files of the POSIX driver. A
// builder is fastest if it is reused for trees of one size, because it keeps every tile that it has
// read. If Fresh is set, each proof uses a new builder, as on a server whose log grows.
func MeasureTesseraProofs(ctx context.Context, config Config) (ProofMeasurement, error) {
	checkpoint, err := readCheckpoint(ctx, config.Dir)
	if err != nil {
		return ProofMeasurement{}, err
	}
	return config.proveAll(ctx, checkpoint.Size, func() (prover, error) {
		p := &tesseraProver{files: client.FileFetcher{Root: config.Dir}, checkpoint: checkpoint, fresh: config.Fresh}
		return p, p.renew(ctx)
	})
}

// readCheckpoint reads the latest checkpoint without verifying its signature.
func readCheckpoint(ctx context.Context, dir string) (c log.Checkpoint, err error) {
	text, err := client.FileFetcher{Root: dir}.ReadCheckpoint(ctx)
	if err != nil {
		return c, fmt.Errorf("reading the checkpoint: %w", err)
	}
	if _, err := c.Unmarshal(text); err != nil {
		return c, fmt.Errorf("reading the checkpoint: %w", err)
	}
	return c, nil
}

type tesseraProver struct {
	files      client.FileFetcher
	checkpoint log.Checkpoint
	builder    *client.ProofBuilder
	fresh      bool
}

func (p *tesseraProver) renew(ctx context.Context) (err error) {
	p.builder, err = client.NewProofBuilder(ctx, p.checkpoint.Size, p.files.ReadTile)
	return err
}

func (p *tesseraProver) prove(ctx context.Context, index uint64) ([]proofs.Hash, error) {
	if p.fresh {
		if err := p.renew(ctx); err != nil {
			return nil, err
		}
	}
	path, err := p.builder.InclusionProof(ctx, index)
	if err != nil {
		return nil, err
	}
	hashes := make([]proofs.Hash, len(path))
	for i := range path {
		hashes[i] = proofs.Hash(path[i])
	}
	return hashes, nil
}

func (p *tesseraProver) verify(ctx context.Context, index uint64, path []proofs.Hash) error {
	leaf, err := client.FetchLeafHashes(ctx, p.files.ReadTile, index, 1, p.checkpoint.Size)
	if err != nil {
		return err
	}
	return proofs.VerifyInclusion(proofs.Hash(leaf[0]), index, p.checkpoint.Size, path, proofs.Hash(p.checkpoint.Hash))
}
