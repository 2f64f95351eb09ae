package api

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"colophon/ledger"
	questions "colophon/ledger/query"
	"colophon/ledger/record"
	"colophon/proofs"
)

// receiptOf returns the receipt for the outcome of a write (spec: Receipts).
func (s *Server) receiptOf(ctx context.Context, l *ledger.Ledger, out *outcome) (*proofs.Receipt, error) {
	ack := out.ack
	if ack.Outcome == ledger.Replayed {
		entry, err := ack.Entry, error(nil)
		if entry == nil { // the record was redacted since
			entry, err = l.Store().Entry(ctx, ack.First)
		}
		if err != nil {
			return nil, fmt.Errorf("entry %d: %w", ack.First, err)
		}
		r, err := s.receiptFrom(ctx, l, ack.First, entry, ack.Head, ack.Head.Size, out.minimal)
		if err == nil {
			r.Replayed = true
		}
		return r, err
	}
	if out.refused || ack.Outcome == ledger.Conflicted {
		r, err := proofs.NewReceipt(ack.Entry)
		if err != nil {
			return nil, fmt.Errorf("receipt of event %d: %w", ack.Seq, err)
		}
		const minimal = false // the receipt proves that the check ran (spec: Refusals)
		return s.prove(ctx, l, r, ack.Entry, ack.Head, ack.Head.Size, minimal)
	}
	r := &proofs.Receipt{
		Ledger:        l.Name(),
		Seq:           ack.Seq,
		Kind:          string(out.record.Kind),
		Time:          ack.Time.Format(record.TimeLayout),
		EventHash:     ack.EventHash,
		PrevEventHash: proofs.Hash(ack.Entry[:proofs.HashSize]),
		LeafHash:      ack.LeafHash,
		Hashes:        out.record.HashesJSON(),
		Checks:        out.record.ChecksJSON(),
	}
	r.Shape, r.FailureStage = out.record.RunShape()
	r.Incomplete = record.IncompleteOf(out.record)
	return s.prove(ctx, l, r, ack.Entry, ack.Head, ack.Head.Size, out.minimal)
}

// receiptAt returns the receipt of an event, with the proof for the tree of that size.
func (s *Server) receiptAt(ctx context.Context, l *ledger.Ledger, seq uint64, head *ledger.Head, size uint64, minimal bool) (*proofs.Receipt, error) {
	entry, err := l.Store().Entry(ctx, seq)
	if err != nil {
		return nil, fmt.Errorf("entry %d: %w", seq, err)
	}
	return s.receiptFrom(ctx, l, seq, entry, head, size, minimal)
}

// receiptFrom is receiptAt for an entry that is in memory.
func (s *Server) receiptFrom(ctx context.Context, l *ledger.Ledger, seq uint64, entry []byte, head *ledger.Head, size uint64, minimal bool) (*proofs.Receipt, error) {
	r, err := proofs.NewReceipt(entry)
	if err != nil {
		return nil, fmt.Errorf("receipt of event %d: %w", seq, err)
	}
	return s.prove(ctx, l, r, entry, head, size, minimal)
}

// prove adds the proof to a receipt, unless minimal is set.
func (s *Server) prove(ctx context.Context, l *ledger.Ledger, r *proofs.Receipt, entry []byte, head *ledger.Head, size uint64, minimal bool) (*proofs.Receipt, error) {
	if minimal {
		return r, nil
	}
	path, err := l.Prover(ctx, head).Inclusion(r.Seq, size)
	if err != nil {
		return nil, fmt.Errorf("proving event %d: %w", r.Seq, err)
	}
	checkpoint, err := l.Checkpoint(ctx, head, size)
	if err != nil {
		return nil, err
	}
	r.Proof = &proofs.Proof{
		Event:      entry[proofs.HashSize:],
		Inclusion:  proofs.Inclusion{LeafIndex: r.Seq, TreeSize: size, Hashes: path},
		Checkpoint: checkpoint,
	}
	return r, nil
}

// receipt answers the receipt of an event, with the proof for the head or for the parameter
// tree_size (spec: Receipts; tlog-proof files). If the client prefers plain text, the answer
// is a .tlog-proof file.
func (s *Server) receipt(c echo.Context) error {
	l, head, seq, err := s.eventInPath(c)
	if err != nil {
		return err
	}
	size := head.Size
	if err := query(c, count("tree_size", &size, nil)); err != nil {
		return err
	}
	if size > head.Size || seq >= size {
		return invalid("tree_size", "must be from %d to %d, the size of the ledger", seq+1, head.Size)
	}
	minimal := preference(c) == "minimal"
	r, err := s.receiptAt(c.Request().Context(), l, seq, head, size, minimal)
	if err != nil {
		return err
	}
	c.Response().Header().Set(echo.HeaderVary, "Accept, Prefer")
	if minimal || preferredType(c.Request()) != echo.MIMETextPlain {
		return answerReceipt(c, http.StatusOK, r)
	}
	proof, err := r.TlogProof()
	if err != nil {
		return err
	}
	c.Response().Header().Set(echo.HeaderContentDisposition, fmt.Sprintf(`attachment; filename="%s-%d.tlog-proof"`, l.Name(), seq))
	return sendText(c, http.StatusOK, echo.MIMETextPlainCharsetUTF8, proof.Append(nil))
}

func answerReceipt(c echo.Context, status int, r *proofs.Receipt) error {
	answer := newReply()
	defer answer.release()
	answer.text = r.AppendJSON(answer.text)
	return answer.send(c, status, echo.MIMEApplicationJSON)
}

// preferredType returns the media type with the highest quality in Accept, in lower case and
// without parameters. The first of equal ones wins.
func preferredType(r *http.Request) (best string) {
	most := 0.0
	for part := range strings.SplitSeq(strings.Join(r.Header.Values(echo.HeaderAccept), ","), ",") {
		name, parameters, _ := strings.Cut(strings.ToLower(part), ";")
		if q := quality(parameters); q > most {
			best, most = strings.TrimSpace(name), q
		}
	}
	return best
}

// quality returns q from the parameters of a media type (RFC 9110, section 12.4.2). It returns
// 1 if q is absent, and 0 (not acceptable) if q is malformed.
func quality(parameters string) float64 {
	for parameter := range strings.SplitSeq(parameters, ";") {
		name, value, _ := strings.Cut(parameter, "=")
		if strings.TrimSpace(name) != "q" {
			continue
		}
		q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err != nil || !(q >= 0 && q <= 1) {
			return 0
		}
		return q
	}
	return 1
}

// eventInPath returns the ledger that the path names, its head, and the seq in the path. It
// returns 404 if the event does not exist.
func (s *Server) eventInPath(c echo.Context) (*ledger.Ledger, *ledger.Head, uint64, error) {
	l, err := s.ledger(c)
	if err != nil {
		return nil, nil, 0, err
	}
	seq, err := questions.ParseCount("seq", c.Param("seq"))
	if err != nil {
		return nil, nil, 0, err
	}
	head := l.Head()
	if seq >= head.Size {
		return nil, nil, 0, fault(http.StatusNotFound, "there is no event %d: the ledger has %d", seq, head.Size)
	}
	return l, head, seq, nil
}
