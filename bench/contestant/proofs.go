package contestant

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"colophon/bench/load"
	"colophon/bench/system"
	"colophon/proofs"
)

// ProofMeasurement holds the measurements of inclusion proofs for random leaves in trees of one size, with
// one prover per core.
type ProofMeasurement struct {
	Proofs   int     `json:"proofs"`
	Rate     float64 `json:"proofs_per_second"`
	CPU      float64 `json:"cpu_us_per_proof"`
	Peak     float64 `json:"peak_memory_bytes"`
	Verified int     `json:"verified_proofs"`
}

// prover builds inclusion proofs. Only one goroutine uses it.
type prover interface {
	// prove builds the proof for the leaf at index.
	prove(ctx context.Context, index uint64) ([]proofs.Hash, error)
	// verify checks a proof against the root that the log has signed.
	verify(ctx context.Context, index uint64, path []proofs.Hash) error
}

// proveAll measures provers on a tree of the given size. A warm-up fills the caches first.
func (c Config) proveAll(ctx context.Context, size uint64, newProver func() (prover, error)) (p ProofMeasurement, err error) {
	provers := make([]*proverWork, runtime.GOMAXPROCS(0))
	for i := range provers {
		made, err := newProver()
		if err != nil {
			return p, err
		}
		provers[i] = &proverWork{prover: made, size: size, random: rand.New(rand.NewPCG(c.Seed, uint64(i)))}
	}
	work := func(w *proverWork, r *load.Result) (bool, error) { return true, w.some(ctx, r) }
	if _, err := during(ctx, c.Warm, provers, work); err != nil {
		return p, err
	}
	meter, err := system.StartMeter(os.Getpid(), c.Dir)
	if err != nil {
		return p, err
	}
	result, err := during(ctx, c.Time, provers, work)
	if err != nil {
		return p, err
	}
	use, err := meter.Stop()
	if err != nil {
		return p, err
	}
	p = ProofMeasurement{Proofs: result.Records, Rate: float64(result.Records) / result.Elapsed.Seconds(),
		CPU: float64(use.CPU.Microseconds()) / float64(result.Records), Peak: float64(use.Peak)}
	for _, w := range provers {
		if err := w.prover.verify(ctx, w.index, w.path); err != nil {
			return p, fmt.Errorf("verifying the proof of leaf %d of %d: %w", w.index, size, err)
		}
		p.Verified++
	}
	return p, nil
}

// proverWork holds one prover, its random number generator, and its last proof.
type proverWork struct {
	prover prover
	size   uint64
	random *rand.Rand
	index  uint64
	path   []proofs.Hash
}

// some builds several proofs. It reads the clock only before the first and after the last of them.
func (w *proverWork) some(ctx context.Context, r *load.Result) (err error) {
	const few = 16
	begin := time.Now()
	for range few {
		w.index = w.random.Uint64N(w.size)
		if w.path, err = w.prover.prove(ctx, w.index); err != nil {
			return fmt.Errorf("proving leaf %d of %d: %w", w.index, w.size, err)
		}
	}
	r.AddRequest(begin, few)
	return nil
}

// fill calls add once for each i with from <= i < to, using many goroutines.
func fill(ctx context.Context, from, to uint64, add func(ctx context.Context, i uint64) error) error {
	const callers = 8192
	var next atomic.Uint64
	next.Store(from)
	_, err := load.RunClients(ctx, make([]struct{}, callers), func(struct{}, *load.Result) (bool, error) {
		i := next.Add(1) - 1
		if i >= to {
			return false, nil
		}
		return true, add(ctx, i)
	})
	return err
}

// FillColophon appends small records to a ledger until it has config.Leaves entries.
func FillColophon(ctx context.Context, config Config) error {
	n, err := openNode(ctx, config.Dir, false)
	if err != nil {
		return err
	}
	err = fill(ctx, n.ledger.Head().Size, config.Leaves, func(ctx context.Context, i uint64) error {
		hash := proofs.LeafHash(strconv.AppendUint(nil, i, 10))
		r, _, err := n.append(ctx, fmt.Appendf(nil, `{"input_hash":"%s","model":"m","temperature":0,"max_tokens":1}`, hex.EncodeToString(hash[:])))
		if err != nil {
			return err
		}
		r.Release()
		return nil
	})
	return errors.Join(err, n.close())
}

// MeasureColophonProofs measures the prover of a ledger that uses the same storage and caches as the
// server.
func MeasureColophonProofs(ctx context.Context, config Config) (ProofMeasurement, error) {
	n, err := openNode(ctx, config.Dir, false)
	if err != nil {
		return ProofMeasurement{}, err
	}
	head := n.ledger.Head()
	p, err := config.proveAll(ctx, head.Size, func() (prover, error) { return &ledgerProver{n}, nil })
	return p, errors.Join(err, n.close())
}

// ledgerProver builds proofs for the current head, as the server does for each request.
type ledgerProver struct{ *node }

func (p *ledgerProver) prove(ctx context.Context, index uint64) ([]proofs.Hash, error) {
	head := p.ledger.Head()
	return p.ledger.Prover(ctx, head).InclusionProof(index, head.Size)
}

func (p *ledgerProver) verify(ctx context.Context, index uint64, path []proofs.Hash) error {
	entry, err := p.ledger.Reader().Entry(ctx, index)
	if err != nil {
		return err
	}
	head := p.ledger.Head()
	return proofs.VerifyInclusion(proofs.LeafHash(entry), index, head.Size, path, head.Root)
}
