package contestant

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"

	"colophon/ledger"
	"colophon/ledger/index"
	"colophon/ledger/keystore"
	"colophon/ledger/query"
	"colophon/ledger/record"
	"colophon/ledger/record/moment"
	"colophon/proofs"
	"colophon/storage/pebble"
)

// node is a ledger in this process, opened as `colophon serve` opens it.
type node struct {
	database *pebble.Database
	host     *ledger.Host
	ledger   *ledger.Ledger
	index    *index.Store    // nil if the ledger is not indexed
	follower *index.Follower // nil if the ledger is not indexed
}

// openNode opens the ledger in dir, or creates it if there is none. If indexed is true, an index
// follows the ledger.
func openNode(ctx context.Context, dir string, indexed bool) (n *node, err error) {
	n = new(node)
	defer func() {
		if err != nil {
			err = errors.Join(err, n.close())
		}
	}()
	log := slog.New(slog.DiscardHandler)
	if n.database, err = pebble.Open(ctx, pebble.Config{Dir: filepath.Join(dir, "db"), Logger: log}); err != nil {
		return n, fmt.Errorf("opening the database: %w", err)
	}
	config := func(string) ledger.Config { return ledger.Config{Logger: log} }
	if n.host, err = ledger.OpenHost(ctx, n.database, keystore.KeyFiles{Dir: filepath.Join(dir, "keys")}, config); err != nil {
		return n, fmt.Errorf("opening the ledgers: %w", err)
	}
	n.ledger, err = n.host.Ledger(ledger.DefaultName)
	if errors.Is(err, ledger.ErrUnknownLedger) {
		n.ledger, err = n.host.Create(ctx, ledger.CreateOptions{Name: ledger.DefaultName})
	}
	if err != nil {
		return n, fmt.Errorf("opening the ledger: %w", err)
	}
	if indexed {
		err = n.follow(filepath.Join(dir, "index"), log)
	}
	return n, err
}

// follow opens the index in dir and starts to fold the events of the ledger.
func (n *node) follow(dir string, log *slog.Logger) (err error) {
	if n.index, err = query.OpenIndex(index.Config{Dir: dir, Logger: log}); err != nil {
		return fmt.Errorf("opening the index: %w", err)
	}
	if n.follower, err = n.index.Follow(n.ledger.Name(), n.ledger.PublishedLog()); err != nil {
		return fmt.Errorf("following the ledger: %w", err)
	}
	n.ledger.OnCommit(func(c ledger.Commit) { n.follower.AddCommit(c.First, c.Entries) })
	n.follower.Wake()
	return nil
}

// close closes everything that openNode opened.
func (n *node) close() error {
	var errs []error
	if n.index != nil {
		errs = append(errs, n.index.Close())
	}
	if n.host != nil {
		errs = append(errs, n.host.Close())
	}
	if n.database != nil {
		errs = append(errs, n.database.Close())
	}
	return errors.Join(errs...)
}

// append appends a record in the same steps as the API: it decodes, checks, and submits the record,
// and waits until it is durable. The caller must release the record.
func (n *node) append(ctx context.Context, body []byte) (*record.Record, ledger.Ack, error) {
	r, err := record.DefaultLimits().WithPayloadMemberSecret(n.ledger.PayloadMemberSecret()).ParseRecord(record.KindIPCRecord, body)
	if err != nil {
		return nil, ledger.Ack{}, err
	}
	submission, err := n.ledger.PrepareRecord(r, ledger.AnonymousActor, "")
	if err != nil {
		return nil, ledger.Ack{}, err
	}
	ticket, err := n.ledger.Enqueue(ctx, submission)
	if err != nil {
		return nil, ledger.Ack{}, err
	}
	ack, err := ticket.Wait()
	if err == nil && ack.Outcome != ledger.OutcomeAppended {
		err = fmt.Errorf("event %d already holds the record's key", ack.KeyHolderSeq)
	}
	return r, ack, err
}

// add appends a record and returns its full receipt as JSON.
func (n *node) add(ctx context.Context, body []byte) ([]byte, error) {
	r, ack, err := n.append(ctx, body)
	if err != nil {
		return nil, err
	}
	defer r.Release()
	path, err := n.ledger.Prover(ctx, ack.Head).InclusionProof(ack.Seq, ack.Head.Size)
	if err != nil {
		return nil, err
	}
	receipt := proofs.Receipt{
		Ledger: n.ledger.Name(), Seq: ack.Seq, Kind: string(r.Kind), Time: ack.Time.Format(moment.Layout),
		EventHash: ack.EventHash, PrevEventHash: proofs.Hash(ack.Entry[:proofs.HashSize]), LeafHash: ack.LeafHash,
		Hashes: r.HashesJSON(), Checks: r.ChecksJSON(),
		Proof: &proofs.ReceiptProof{
			Event:      ack.Entry[proofs.HashSize:],
			Inclusion:  proofs.InclusionProof{LeafIndex: ack.Seq, TreeSize: ack.Head.Size, Hashes: path},
			Checkpoint: ack.Head.Checkpoint,
		},
	}
	return receipt.AppendJSON(nil), nil
}

// caughtUp waits until the index contains the given number of records. It waits for one more event,
// because the first event created the ledger.
func (n *node) caughtUp(ctx context.Context, records int) error {
	return n.follower.WaitForSize(ctx, uint64(records)+1)
}

// ReceiptVerifier verifies full receipts with a ledger's key.
type ReceiptVerifier struct{ verifier *proofs.Verifier }

// NewReceiptVerifier returns a ReceiptVerifier that uses the given verifier key.
func NewReceiptVerifier(key string) (*ReceiptVerifier, error) {
	verifier, err := proofs.ParseVerifier(key)
	if err != nil {
		return nil, fmt.Errorf("parsing the verifier key: %w", err)
	}
	return &ReceiptVerifier{verifier}, nil
}

// Verify checks that answer is the receipt for body, that its proof is valid, and that every hash
// that body claims is correct. If minimal is true, the receipt has no proof, and Verify does not
// check one.
func (v *ReceiptVerifier) Verify(answer, body []byte, minimal bool) error {
	receipt, err := proofs.ParseReceipt(answer)
	if err != nil {
		return err
	}
	if !minimal {
		if err := receipt.Verify(v.verifier); err != nil {
			return err
		}
	}
	var hashes, claimed claims
	if err := errors.Join(json.Unmarshal(receipt.Hashes, &hashes), json.Unmarshal(body, &claimed)); err != nil {
		return err
	}
	if hashes != claimed {
		return fmt.Errorf("the hashes of event %d are %v, but the hashes of the record are %v", receipt.Seq, hashes, claimed)
	}
	if strings.Count(string(receipt.Checks), `"match"`) != 4 {
		return fmt.Errorf("not every claim of event %d is right: %s", receipt.Seq, receipt.Checks)
	}
	return nil
}

// claims holds the hashes that a record of the corpus claims.
type claims struct {
	Input  string `json:"input_hash"`
	Prompt string `json:"system_prompt_hash"`
	Output string `json:"output_hash"`
	IPC    string `json:"ipc_id"`
}

// MeasureColophon measures a ledger and its index, both in this process.
func MeasureColophon(ctx context.Context, config Config) (Measurement, error) {
	n, err := openNode(ctx, config.Dir, true)
	if err != nil {
		return Measurement{}, err
	}
	receipts, err := NewReceiptVerifier(n.ledger.VerifierKey())
	if err != nil {
		return Measurement{}, errors.Join(err, n.close())
	}
	m, err := config.run(ctx, appended{
		add: n.add, caughtUp: n.caughtUp,
		verify: func(_ context.Context, answer, body []byte) error { return receipts.Verify(answer, body, false) },
	})
	return m, errors.Join(err, n.close())
}
