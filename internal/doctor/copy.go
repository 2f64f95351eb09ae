package doctor

import (
	"context"
	"errors"

	"colophon/internal/logurl"
	"colophon/proofs"
	"colophon/proofs/monitor/fetch"
)

// maxCheckpoint is the maximum length of a checkpoint, in bytes.
const maxCheckpoint = 1 << 16

// errOtherKey means that the checkpoint of a copy is not signed by the given key.
var errOtherKey = errors.New("the copy's checkpoint is not signed by the given key")

// askCopy reads and verifies the checkpoint of the published copy that the server follows, if any,
// and stores any error in d.copyErr.
func (d *deployment) askCopy(ctx context.Context) {
	if d.settings.config.CopyURL == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	d.copyErr = d.checkCheckpoint(ctx)
}

func (d *deployment) checkCheckpoint(ctx context.Context) error {
	keys, err := d.console.ReadCurrentKeys(d.settings.config.CopyVerifierKey)
	if err != nil {
		return err
	}
	at, err := logurl.Parse(d.settings.config.CopyURL)
	if err != nil {
		return err
	}
	from, err := at.Source()
	if err != nil {
		return err
	}
	client, err := fetch.New(from, at.Ledger, answerTimeout, 1)
	if err != nil {
		return err
	}
	note, err := client.GetObject(ctx, "/log/checkpoint", maxCheckpoint)
	if err != nil {
		return err
	}
	_, err = proofs.OpenCheckpoint(note, keys...)
	if errors.Is(err, proofs.ErrWrongKey) {
		return errOtherKey
	}
	return err
}

// checkCopy checks that the published copy that the server follows can be read and that its
// checkpoint is signed by the given key.
func checkCopy(d *deployment) []Finding {
	switch from := d.settings.config.CopyURL; {
	case from == "":
		return finding(VerdictOK, "", "the server follows no published copy")
	case errors.Is(d.copyErr, errOtherKey):
		return finding(VerdictAdvice, "if the ledger has not replaced the given key, correct --key or --from; the server accepts only the given key and its successors", "%s: %v", from, d.copyErr)
	case d.copyErr != nil:
		return finding(VerdictWrong, "correct --from or --key, or ask the operator of the copy; until then the server shows an older state", "%s: %v", from, d.copyErr)
	default:
		return finding(VerdictOK, "", "%s can be read, and its checkpoint is signed by the given key", from)
	}
}
