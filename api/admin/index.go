package admin

import (
	"context"
	"encoding/hex"
	"net/http"
	"strings"

	"colophon/api/call"
	"colophon/api/problem"
	"colophon/client/wire"
	"colophon/ledger/index"
)

// partMemory is the amount of memory, in bytes, needed to read and encode one part of an index. It
// covers the rows, whose buffers can grow to twice their size, and the text of the answer.
const partMemory = 4 * index.SnapshotPartBytes

// ServeIndexPart sends a part of a ledger's index to another server.
func (h *Handlers) ServeIndexPart(c *call.Call) error {
	var size uint64
	var given bool
	cursor, rows := "", "true"
	if err := c.ParseParameters(call.UintParameter("as_of", &size, &given), call.TextParameter("cursor", &cursor), call.TextParameter("rows", &rows)); err != nil {
		return err
	}
	from, err := hex.DecodeString(cursor)
	switch {
	case given && size == 0:
		return problem.InvalidParameter("as_of", "must be at least 1")
	case err != nil:
		return problem.InvalidParameter("cursor", "must be the value of next in an earlier response")
	case cursor != "" && !given:
		return problem.InvalidParameter("as_of", "is required with the parameter \"cursor\"; use the as_of of the earlier response")
	case rows != "true" && rows != "false":
		return problem.InvalidParameter("rows", "must be true or false")
	case cursor == "":
		from = nil
	}
	l, err := c.Ledger()
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	c.EndHeavyWork() // let other requests work while this one waits for the index
	limited, cancel := context.WithTimeout(ctx, h.Limiter.Limits.IndexWait)
	defer cancel()
	read, err := index.HoldSnapshot(limited, h.Index.Follower(l.Name()), size)
	if err != nil {
		if limited.Err() != nil && ctx.Err() == nil {
			err = index.ErrBehind
		}
		return err
	}
	if err := c.BeginAnswer(partMemory); err != nil {
		return err
	}
	part, err := read(from)
	if err != nil {
		return err
	}
	root, err := l.Prover(ctx, l.Head()).Root(part.Size)
	if err != nil {
		return err
	}
	digest := part.Digest()
	answer := wire.IndexPart{AsOf: part.Size, RootHash: hex.EncodeToString(root[:]), Layout: strings.TrimSpace(index.Layout),
		Digest: hex.EncodeToString(digest[:]), Next: hex.EncodeToString(part.Next)}
	if rows == "true" {
		answer.Rows = part.Rows
	}
	return c.AnswerJSON(http.StatusOK, answer)
}
